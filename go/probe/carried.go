package probe

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/slackwater/slackwater/go/policy"
)

// HeaderLoad is the header of a response that carries the replica's load: RIF, capacity in
// thousandths of a request in flight and cost in nanoseconds, such as "3;4500;2000".
const HeaderLoad = "X-Slackwater-Load"

// ErrBadCarried says that [HeaderLoad] comes twice, or is not three numbers between semicolons, of
// which the last two may be empty.
var ErrBadCarried = errors.New("the header x-slackwater-load is not one text of three numbers " +
	"between semicolons")

// AppendCarried appends the value of [HeaderLoad] for report to b. All else in the report is left
// to probes.
func AppendCarried(b []byte, report *policy.LoadReport) []byte {
	b = strconv.AppendUint(b, uint64(report.RIF), 10)
	b = append(b, ';')
	if report.CapacityMilliRIF.Known {
		b = strconv.AppendUint(b, uint64(report.CapacityMilliRIF.Value), 10)
	}
	b = append(b, ';')
	if report.Cost.Known {
		b = strconv.AppendUint(b, wireNanos(report.Cost.Value), 10)
	}
	return b
}

// ParseCarried reads a value of [HeaderLoad]. The error is [ErrBadCarried].
func ParseCarried(value string) (policy.LoadReport, error) {
	rifText, rest, two := strings.Cut(value, ";")
	capacityText, rest, three := strings.Cut(rest, ";")
	costText, _, _ := strings.Cut(rest, ";") // later versions may add numbers
	rif, ok := parseDigits(rifText)
	capacity, capacityOK := optionalDigits(capacityText)
	cost, costOK := optionalDigits(costText)
	if !two || !three || !ok || !capacityOK || !costOK || rif > math.MaxUint32 ||
		capacity.Value > math.MaxUint32 {
		return policy.LoadReport{}, ErrBadCarried
	}
	report := policy.LoadReport{RIF: uint32(rif)}
	if capacity.Known {
		report.CapacityMilliRIF = policy.Some(uint32(capacity.Value))
	}
	if cost.Known {
		report.Cost = policy.Some(nanos(cost.Value))
	}
	return report, nil
}

// TakeCarried removes the load from a response's header, so that it goes no further, and returns
// it. It reports false if there is none. The error is [ErrBadCarried]; the header is removed all
// the same.
func TakeCarried(header http.Header) (policy.LoadReport, bool, error) {
	values, ok := header[HeaderLoad]
	if !ok {
		return policy.LoadReport{}, false, nil
	}
	delete(header, HeaderLoad)
	if len(values) != 1 {
		return policy.LoadReport{}, true, ErrBadCarried
	}
	report, err := ParseCarried(values[0])
	return report, true, err
}

func optionalDigits(text string) (policy.Optional[uint64], bool) {
	if text == "" {
		return policy.Optional[uint64]{}, true
	}
	value, ok := parseDigits(text)
	return policy.Some(value), ok
}
