package probe

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Headers of probes and reports over HTTP that are signed.
const (
	// HeaderProbeAuth is a probe's time, nonce and tag.
	HeaderProbeAuth = "X-Slackwater-Probe-Auth"
	// HeaderReportAuth is a report's tag.
	HeaderReportAuth = "X-Slackwater-Report-Auth"
)

// ClockSkewMax is the greatest difference between the clocks of client and replica, and the time
// for which a recorded probe is answered again.
const ClockSkewMax = 30 * time.Second

const (
	nonceDigits   = 16
	timeDigitsMax = 20
)

// Reasons for which a probe or a report over HTTP is refused.
var (
	// ErrAuthAbsent says that it is not signed.
	ErrAuthAbsent = errors.New("it is not signed; expected a signature with the shared key")
	// ErrAuthMalformed says that the signature comes twice, or does not match the specification.
	ErrAuthMalformed = errors.New("its signature has no valid form")
	// ErrAuthWrong says that the tag is not that of this message under this key.
	ErrAuthWrong = errors.New("its signature was made with another key, or for other content")
	// ErrAuthStale says that the time differs from this clock by more than [ClockSkewMax].
	ErrAuthStale = errors.New("its time differs too much from this clock; check both clocks")
)

// Challenge is the time and the nonce of a signed probe, as they were sent. The signature of the
// report is bound to it.
type Challenge string

// SignProbe signs a probe that is otherwise complete, in place of any signature. The nonce cannot
// be guessed and is never used again.
func SignProbe(header http.Header, key *Key, at time.Time, nonce uint64) Challenge {
	challenge := Challenge(fmt.Sprintf("%d.%016x", seconds(at), nonce))
	tag := key.sign(challenge.probeText(header))
	header[HeaderProbeAuth] = []string{string(challenge) + "." + hex.EncodeToString(tag[:])}
	return challenge
}

// CheckProbe checks that a probe was signed with key, at most [ClockSkewMax] from now. It returns
// the challenge for which the report must be signed. The error is [ErrAuthAbsent],
// [ErrAuthMalformed], [ErrAuthWrong] or [ErrAuthStale].
func CheckProbe(header http.Header, key *Key, now time.Time) (Challenge, error) {
	text, err := single(header, HeaderProbeAuth)
	if err != nil {
		return "", err
	}
	end := strings.LastIndexByte(text, '.')
	if end < 0 {
		return "", ErrAuthMalformed
	}
	challenge := Challenge(text[:end])
	sent, nonce, _ := strings.Cut(text[:end], ".")
	madeAt, isTime := parseDigits(sent)
	if !isTime || len(sent) > timeDigitsMax || len(nonce) != nonceDigits || !isHex(nonce) {
		return "", ErrAuthMalformed
	}
	tag, err := tagIn(text[end+1:])
	if err != nil {
		return "", err
	}
	// First, so that a client without the key learns nothing, not even the time here.
	if !key.accepts(challenge.probeText(header), tag) {
		return "", ErrAuthWrong
	}
	at := seconds(now)
	if max(at, madeAt)-min(at, madeAt) > uint64(ClockSkewMax/time.Second) {
		return "", ErrAuthStale
	}
	return challenge, nil
}

// SignReport signs a report that is otherwise complete.
func SignReport(header http.Header, key *Key, challenge Challenge) {
	tag := key.sign(challenge.reportText(header))
	header[HeaderReportAuth] = []string{hex.EncodeToString(tag[:])}
}

// CheckReport checks that a report was signed with key, for the probe with this challenge. The
// error is [ErrAuthAbsent], [ErrAuthMalformed] or [ErrAuthWrong].
func CheckReport(header http.Header, key *Key, challenge Challenge) error {
	text, err := single(header, HeaderReportAuth)
	if err != nil {
		return err
	}
	tag, err := tagIn(text)
	if err != nil {
		return err
	}
	if !key.accepts(challenge.reportText(header), tag) {
		return ErrAuthWrong
	}
	return nil
}

func (c Challenge) probeText(header http.Header) []byte {
	text := append([]byte("slackwater probe 1\n"), c...)
	return appendLines(append(text, '\n'), header, HeaderHint)
}

func (c Challenge) reportText(header http.Header) []byte {
	text := append([]byte("slackwater report 1\n"), c...)
	text = append(text, '\n')
	for _, name := range reportHeaders {
		text = appendLines(text, header, name)
	}
	return text
}

// appendLines appends a line for each value of a header.
func appendLines(text []byte, header http.Header, name string) []byte {
	for _, value := range header[name] {
		text = append(text, strings.ToLower(name)...)
		text = append(text, ": "...)
		text = append(text, value...)
		text = append(text, '\n')
	}
	return text
}

func single(header http.Header, name string) (string, error) {
	switch values := header[name]; len(values) {
	case 0:
		return "", ErrAuthAbsent
	case 1:
		return values[0], nil
	}
	return "", ErrAuthMalformed
}

func tagIn(text string) ([]byte, error) {
	if len(text) != 2*tagBytes {
		return nil, ErrAuthMalformed
	}
	tag, err := hex.DecodeString(text)
	if err != nil {
		return nil, ErrAuthMalformed
	}
	return tag, nil
}

func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil
}

// seconds returns the seconds since 1970; earlier times count as 0.
func seconds(at time.Time) uint64 { return uint64(max(at.Unix(), 0)) }
