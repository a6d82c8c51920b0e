package probe

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Path is the default path at which a replica answers probes over HTTP.
const Path = "/prequal/probe"

// Headers of the answer to a probe over HTTP, and of a probe, as keys of an [http.Header].
const (
	// HeaderRIF is the number of requests in flight: the one header that every report has.
	HeaderRIF = "X-Prequal-Rif"
	// HeaderLatency is the latency in whole microseconds, rounded down and at least 1. Absent, or
	// 0, is unknown.
	HeaderLatency = "X-Prequal-Latency-Us"
	// HeaderLoadScale is the load scale in 1/1024; absent for 1024.
	HeaderLoadScale = "X-Slackwater-Load-Scale"
	// HeaderDraining is 1 if the replica takes no new queries; otherwise 0 or absent.
	HeaderDraining = "X-Slackwater-Draining"
	// HeaderIncarnation changes when the replica restarts.
	HeaderIncarnation = "X-Slackwater-Incarnation"
	// HeaderError is the share of recent queries that failed, in millionths.
	HeaderError = "X-Slackwater-Error-Millionths"
	// HeaderCPU is the CPU in use, in millionths of the allocation.
	HeaderCPU = "X-Slackwater-Cpu-Millionths"
	// HeaderQueryRate is the rate of finished queries, in thousandths a second.
	HeaderQueryRate = "X-Slackwater-Query-Rate-Millis"
	// HeaderCapacity is the capacity, in thousandths of a request in flight.
	HeaderCapacity = "X-Slackwater-Capacity-Millirif"
	// HeaderCost is the CPU time of a query in nanoseconds.
	HeaderCost = "X-Slackwater-Cost-Ns"
	// HeaderHint is a probe's hint, in hexadecimal digits.
	HeaderHint = "X-Slackwater-Hint"
)

// reportHeaders are the headers of a report, in the order in which they are signed.
var reportHeaders = [...]string{
	HeaderRIF, HeaderLatency, HeaderLoadScale, HeaderDraining, HeaderIncarnation,
	HeaderError, HeaderCPU, HeaderQueryRate, HeaderCapacity, HeaderCost,
}

// Reasons in a [ReportError].
var (
	// ErrNoRIF says that [HeaderRIF] is absent: what answered does not implement Prequal.
	ErrNoRIF = errors.New("is absent; does the probe reach a replica that reports its load?")
	// ErrNotANumber says that a header is not decimal digits, or is out of range.
	ErrNotANumber = errors.New("is not a whole number in range")
	// ErrRepeated says that a header comes more than once, as if from two replicas.
	ErrRepeated = errors.New("comes more than once")
)

// ErrBadHint says that [HeaderHint] comes twice, or is not up to 256 bytes in hexadecimal digits.
var ErrBadHint = errors.New("the header x-slackwater-hint is not one text of up to 256 bytes " +
	"in hexadecimal digits")

// ReportError says why headers contain no report. One bad header refuses the whole report, because
// half a report may mislead more than none.
type ReportError struct {
	// Header is the key of the header at fault.
	Header string
	// Err is [ErrNoRIF], [ErrNotANumber] or [ErrRepeated].
	Err error
}

// Error returns a sentence for a log.
func (e *ReportError) Error() string {
	return fmt.Sprintf("the header %s %v", strings.ToLower(e.Header), e.Err)
}

// Unwrap returns the reason.
func (e *ReportError) Unwrap() error { return e.Err }

// WriteReport puts report into header, in place of any report there. The longest time.Duration
// stands for every longer time and is written as the greatest number of the protocol.
func WriteReport(header http.Header, report *policy.LoadReport) {
	for _, name := range reportHeaders {
		delete(header, name)
	}
	set := func(name string, value uint64) {
		header[name] = []string{strconv.FormatUint(value, 10)}
	}
	narrow := func(name string, value policy.Optional[uint32]) {
		if value.Known {
			set(name, uint64(value.Value))
		}
	}
	set(HeaderRIF, uint64(report.RIF))
	if report.Latency == math.MaxInt64 {
		set(HeaderLatency, math.MaxUint64)
	} else if report.Latency > 0 {
		set(HeaderLatency, max(uint64(report.Latency/time.Microsecond), 1))
	}
	if scale := report.LoadScale; scale != 0 && scale != trueLoad {
		set(HeaderLoadScale, uint64(scale))
	}
	if report.Draining {
		set(HeaderDraining, 1)
	}
	if report.Incarnation.Known {
		set(HeaderIncarnation, report.Incarnation.Value)
	}
	narrow(HeaderError, report.ErrorMillionths)
	narrow(HeaderCPU, report.CPUMillionths)
	narrow(HeaderQueryRate, report.QueryRateMillis)
	narrow(HeaderCapacity, report.CapacityMilliRIF)
	if report.Cost.Known {
		set(HeaderCost, wireNanos(report.Cost.Value))
	}
}

// ReadReport returns the report in header, whose keys are canonical. Times beyond the longest
// time.Duration are read as that. The error is a [*ReportError].
func ReadReport(header http.Header) (policy.LoadReport, error) {
	numbers := reportNumbers{header: header}
	rif := numbers.narrow(HeaderRIF)
	if numbers.err == nil && !rif.Known {
		numbers.err = &ReportError{HeaderRIF, ErrNoRIF}
	}
	report := policy.LoadReport{RIF: rif.Value}
	if micros := numbers.read(HeaderLatency, math.MaxUint64); micros.Known {
		const most = math.MaxInt64 / uint64(time.Microsecond)
		report.Latency = math.MaxInt64
		if micros.Value <= most {
			report.Latency = time.Duration(micros.Value) * time.Microsecond
		}
	}
	if scale := numbers.read(HeaderLoadScale, math.MaxUint16); scale.Known {
		report.LoadScale = loadScale(uint16(scale.Value))
	}
	report.Draining = numbers.read(HeaderDraining, 1).Value == 1
	report.Incarnation = numbers.read(HeaderIncarnation, math.MaxUint64)
	report.ErrorMillionths = numbers.narrow(HeaderError)
	report.CPUMillionths = numbers.narrow(HeaderCPU)
	report.QueryRateMillis = numbers.narrow(HeaderQueryRate)
	report.CapacityMilliRIF = numbers.narrow(HeaderCapacity)
	if cost := numbers.read(HeaderCost, math.MaxUint64); cost.Known {
		report.Cost = policy.Some(nanos(cost.Value))
	}
	if numbers.err != nil {
		return policy.LoadReport{}, numbers.err
	}
	return report, nil
}

// reportNumbers reads numbers until one is at fault.
type reportNumbers struct {
	header http.Header
	err    error
}

// read returns the header's number, from 0 to most; it is unknown if the header is absent.
func (r *reportNumbers) read(name string, most uint64) (number policy.Optional[uint64]) {
	values := r.header[name]
	if r.err != nil || len(values) == 0 {
		return number
	}
	if len(values) > 1 {
		r.err = &ReportError{name, ErrRepeated}
		return number
	}
	value, ok := parseDigits(values[0])
	if !ok || value > most {
		r.err = &ReportError{name, ErrNotANumber}
		return number
	}
	return policy.Some(value)
}

func (r *reportNumbers) narrow(name string) policy.Optional[uint32] {
	wide := r.read(name, math.MaxUint32)
	return policy.Optional[uint32]{Value: uint32(wide.Value), Known: wide.Known}
}

// parseDigits reads decimal digits and nothing else; strconv would accept a plus sign.
func parseDigits(text string) (value uint64, ok bool) {
	for i := range len(text) {
		digit := uint64(text[i] - '0')
		if digit > 9 || value > math.MaxUint64/10 || value*10 > math.MaxUint64-digit {
			return 0, false
		}
		value = value*10 + digit
	}
	return value, text != ""
}

// WriteHint puts hint into header, in place of any hint there. An empty hint only removes it. The
// error is [ErrHintTooLong].
func WriteHint(header http.Header, hint []byte) error {
	if len(hint) > HintBytesMax {
		return ErrHintTooLong
	}
	delete(header, HeaderHint)
	if len(hint) > 0 {
		header[HeaderHint] = []string{hex.EncodeToString(hint)}
	}
	return nil
}

// ReadHint returns the hint in header; it is empty if there is none. The error is [ErrBadHint].
func ReadHint(header http.Header) ([]byte, error) {
	values := header[HeaderHint]
	switch {
	case len(values) == 0:
		return nil, nil
	case len(values) > 1 || len(values[0]) > 2*HintBytesMax:
		return nil, ErrBadHint
	}
	hint, err := hex.DecodeString(values[0])
	if err != nil {
		return nil, ErrBadHint
	}
	return hint, nil
}
