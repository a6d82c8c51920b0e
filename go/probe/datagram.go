package probe

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	// HintBytesMax is the length of the longest hint.
	HintBytesMax = 256
	// DatagramBytesMax is the length of the longest datagram that may be sent, and that every
	// receiver accepts.
	DatagramBytesMax = 512
	// ReplyBytesMax is the length of the longest reply of this version: with a tag.
	ReplyBytesMax = baseBytes + tagBytes

	baseBytes = 96
	magic     = "SLWP"
	version   = 1
)

const (
	kindRequest = 1
	kindReply   = 2
	kindBegun   = 3
)

// Offsets of the fields of the base.
const (
	atVersion     = 4
	atKind        = 5
	atFlags       = 6
	atNonce       = 8
	atHintBytes   = 16
	atPresent     = 16
	atRIF         = 20
	atLatency     = 24
	atIncarnation = 32
	atCost        = 40
	atError       = 48
	atCPU         = 52
	atQueryRate   = 56
	atCapacity    = 60
	atLoadScale   = 64
	flagKeyed     = 1 << 0
	flagDraining  = 1 << 1
)

// Bits of the field that says which optional fields of a reply are set.
const (
	hasLatency = 1 << iota
	hasLoadScale
	hasIncarnation
	hasError
	hasCPU
	hasQueryRate
	hasCapacity
	hasCost
)

// ErrHintTooLong says that a hint has more than [HintBytesMax] bytes. Send a hash of it instead.
var ErrHintTooLong = errors.New("the hint of a probe has more than 256 bytes; send a hash of it")

// Request is a client's probe.
type Request struct {
	// Nonce comes back in the reply. It cannot be guessed, and is not used again while a reply may
	// still arrive.
	Nonce uint64
	// Hint says what the query is about, for replicas that scale their load by it: at most
	// [HintBytesMax] bytes, empty for none.
	Hint []byte
}

// Reply is a replica's answer.
type Reply struct {
	// Nonce is the request's.
	Nonce uint64
	// Report is the replica's load.
	Report policy.LoadReport
}

// AppendRequest appends the datagram of a request to b: 96 bytes and the hint, and 16 more with a
// key. It fails with [ErrHintTooLong] only.
func AppendRequest(b []byte, request Request, key *Key) ([]byte, error) {
	if len(request.Hint) > HintBytesMax {
		return b, ErrHintTooLong
	}
	start := len(b)
	b = appendBase(b, kindRequest, 0, request.Nonce, key)
	binary.BigEndian.PutUint16(b[start+atHintBytes:], uint16(len(request.Hint)))
	return seal(append(b, request.Hint...), start, key), nil
}

// ParseRequest reads a request. Its hint is a part of datagram. Additions of later versions are
// ignored. The error is a [Malformed].
func ParseRequest(datagram []byte, key *Key) (Request, error) {
	base, rest, err := open(datagram, kindRequest, key)
	if err != nil {
		return Request{}, err
	}
	hintBytes := int(binary.BigEndian.Uint16(base[atHintBytes:]))
	if hintBytes > HintBytesMax || hintBytes > len(rest) {
		return Request{}, BadHint
	}
	return Request{Nonce: binary.BigEndian.Uint64(base[atNonce:]), Hint: rest[:hintBytes:hintBytes]}, nil
}

// AppendReply appends the datagram of a reply to b: 96 bytes, 112 with a key. The longest
// time.Duration stands for every longer time and is sent as the greatest number of the protocol;
// negative ones count as 0.
func AppendReply(b []byte, reply *Reply, key *Key) []byte {
	report := &reply.Report
	var flags uint16
	if report.Draining {
		flags = flagDraining
	}
	start := len(b)
	b = appendBase(b, kindReply, flags, reply.Nonce, key)
	base := b[start:]
	var present uint32
	binary.BigEndian.PutUint32(base[atRIF:], report.RIF)
	if report.Latency > 0 {
		present |= hasLatency
		binary.BigEndian.PutUint64(base[atLatency:], wireNanos(report.Latency))
	}
	if scale := report.LoadScale; scale != 0 && scale != trueLoad {
		present |= hasLoadScale
		binary.BigEndian.PutUint16(base[atLoadScale:], scale)
	}
	if report.Incarnation.Known {
		present |= hasIncarnation
		binary.BigEndian.PutUint64(base[atIncarnation:], report.Incarnation.Value)
	}
	if report.Cost.Known {
		present |= hasCost
		binary.BigEndian.PutUint64(base[atCost:], wireNanos(report.Cost.Value))
	}
	narrow := func(bit uint32, at int, value policy.Optional[uint32]) {
		if value.Known {
			present |= bit
			binary.BigEndian.PutUint32(base[at:], value.Value)
		}
	}
	narrow(hasError, atError, report.ErrorMillionths)
	narrow(hasCPU, atCPU, report.CPUMillionths)
	narrow(hasQueryRate, atQueryRate, report.QueryRateMillis)
	narrow(hasCapacity, atCapacity, report.CapacityMilliRIF)
	binary.BigEndian.PutUint32(base[atPresent:], present)
	return seal(b, start, key)
}

// ParseReply reads a reply. Unknown fields are ignored. Times beyond the longest time.Duration are
// read as that. The error is a [Malformed].
func ParseReply(datagram []byte, key *Key) (Reply, error) {
	base, _, err := open(datagram, kindReply, key)
	if err != nil {
		return Reply{}, err
	}
	present := binary.BigEndian.Uint32(base[atPresent:])
	reply := Reply{Nonce: binary.BigEndian.Uint64(base[atNonce:])}
	report := &reply.Report
	report.RIF = binary.BigEndian.Uint32(base[atRIF:])
	report.Draining = binary.BigEndian.Uint16(base[atFlags:])&flagDraining != 0
	if present&hasLatency != 0 {
		report.Latency = nanos(binary.BigEndian.Uint64(base[atLatency:]))
	}
	if present&hasLoadScale != 0 {
		report.LoadScale = loadScale(binary.BigEndian.Uint16(base[atLoadScale:]))
	}
	if present&hasIncarnation != 0 {
		report.Incarnation = policy.Some(binary.BigEndian.Uint64(base[atIncarnation:]))
	}
	if present&hasCost != 0 {
		report.Cost = policy.Some(nanos(binary.BigEndian.Uint64(base[atCost:])))
	}
	narrow := func(bit uint32, at int) (value policy.Optional[uint32]) {
		if present&bit != 0 {
			value = policy.Some(binary.BigEndian.Uint32(base[at:]))
		}
		return value
	}
	report.ErrorMillionths = narrow(hasError, atError)
	report.CPUMillionths = narrow(hasCPU, atCPU)
	report.QueryRateMillis = narrow(hasQueryRate, atQueryRate)
	report.CapacityMilliRIF = narrow(hasCapacity, atCapacity)
	return reply, nil
}

// AppendBegun appends to b the datagram by which the replica that begins one of two tied copies of
// a query notifies the other copy's replica. It is 96 bytes long, 112 with a key, and is never
// answered.
func AppendBegun(b []byte, name uint64, key *Key) []byte {
	start := len(b)
	return seal(appendBase(b, kindBegun, 0, name, key), start, key)
}

// ParseBegun returns the name of the copies of which one has begun elsewhere. The error is a
// [Malformed].
func ParseBegun(datagram []byte, key *Key) (uint64, error) {
	base, _, err := open(datagram, kindBegun, key)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(base[atNonce:]), nil
}

func appendBase(b []byte, kind byte, flags uint16, nonce uint64, key *Key) []byte {
	if key != nil {
		flags |= flagKeyed
	}
	start := len(b)
	var zero [baseBytes]byte
	b = append(b, zero[:]...)
	base := b[start:]
	copy(base, magic)
	base[atVersion] = version
	base[atKind] = kind
	binary.BigEndian.PutUint16(base[atFlags:], flags)
	binary.BigEndian.PutUint64(base[atNonce:], nonce)
	return b
}

// seal appends the tag of the datagram that begins at start, if there is a key.
func seal(b []byte, start int, key *Key) []byte {
	if key == nil {
		return b
	}
	tag := key.sign(b[start:])
	return append(b, tag[:]...)
}

// open makes the checks that all kinds share. It returns the base, and what is between base and
// tag. Nothing else may be read before the tag is verified.
func open(datagram []byte, kind byte, key *Key) (base, rest []byte, err error) {
	switch {
	case len(datagram) > DatagramBytesMax:
		return nil, nil, TooLong
	case len(datagram) < baseBytes:
		return nil, nil, TooShort
	case string(datagram[:len(magic)]) != magic:
		return nil, nil, NotAProbe
	case datagram[atVersion] != version:
		return nil, nil, UnknownVersion
	case datagram[atKind] != kind:
		return nil, nil, WrongKind
	}
	end := len(datagram)
	switch isKeyed := binary.BigEndian.Uint16(datagram[atFlags:])&flagKeyed != 0; {
	case isKeyed && key == nil:
		return nil, nil, Keyed
	case !isKeyed && key != nil:
		return nil, nil, Unkeyed
	case isKeyed:
		end -= tagBytes
		if end < baseBytes {
			return nil, nil, TooShort
		}
		if !key.accepts(datagram[:end], datagram[end:]) {
			return nil, nil, Authentication
		}
	}
	return datagram[:baseBytes:baseBytes], datagram[baseBytes:end], nil
}

// trueLoad is the load scale of a replica that does not scale its load.
const trueLoad = 1024

// loadScale reads a load scale: 0 counts as 1, and the true load is the zero value of a report.
func loadScale(parts uint16) uint16 {
	switch parts {
	case 0:
		return 1
	case trueLoad:
		return 0
	}
	return parts
}

// wireNanos and nanos convert times. The protocol has 64 bits for them, a Duration has 63.
func wireNanos(span time.Duration) uint64 {
	if span == math.MaxInt64 {
		return math.MaxUint64
	}
	return uint64(max(span, 0))
}

func nanos(wire uint64) time.Duration {
	return time.Duration(min(wire, math.MaxInt64))
}
