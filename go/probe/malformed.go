package probe

// Malformed is the reason for which a datagram is refused. It is an error. Both sides make the same
// checks in the same order, so a datagram has one verdict. Nothing refused is answered; receivers
// count it.
type Malformed uint8

// The verdicts.
const (
	// TooShort: shorter than the base of all datagrams, or than base and tag.
	TooShort Malformed = iota + 1
	// TooLong: longer than [DatagramBytesMax].
	TooLong
	// NotAProbe: does not begin as a datagram of the protocol does.
	NotAProbe
	// UnknownVersion: of a version of the protocol that this side does not know.
	UnknownVersion
	// WrongKind: a reply where a request is expected, or the reverse.
	WrongKind
	// Unkeyed: without a tag, though this side has a key.
	Unkeyed
	// Keyed: with a tag, though this side has no key.
	Keyed
	// Authentication: with the tag of another key, or changed on the way.
	Authentication
	// BadHint: the hint is longer than [HintBytesMax], or than the datagram.
	BadHint
)

const malformedKinds = int(BadHint) + 1

var malformedNames = [malformedKinds]string{
	TooShort:       "too_short",
	TooLong:        "too_long",
	NotAProbe:      "not_a_probe",
	UnknownVersion: "version",
	WrongKind:      "kind",
	Unkeyed:        "unkeyed",
	Keyed:          "keyed",
	Authentication: "authentication",
	BadHint:        "hint",
}

var malformedTexts = [malformedKinds]string{
	TooShort:       "the datagram is shorter than a probe",
	TooLong:        "the datagram is longer than any probe",
	NotAProbe:      "the datagram is not of the probe protocol; what else uses this port?",
	UnknownVersion: "the datagram is of an unknown version of the probe protocol",
	WrongKind:      "the datagram is a request where a reply is expected, or the other way round",
	Unkeyed:        "the datagram has no tag, but a probe key is configured here; configure it there too",
	Keyed:          "the datagram has a tag, but no probe key is configured here",
	Authentication: "the datagram's tag is wrong; do both sides have the same probe key?",
	BadHint:        "the datagram's hint is longer than allowed or than the datagram",
}

// Name returns the verdict as the specification spells it, such as "too_short"; it is empty for a
// value that is none.
func (m Malformed) Name() string {
	if int(m) < malformedKinds {
		return malformedNames[m]
	}
	return ""
}

// Error returns a sentence for a log.
func (m Malformed) Error() string {
	if m > 0 && int(m) < malformedKinds {
		return malformedTexts[m]
	}
	return "the datagram is malformed"
}
