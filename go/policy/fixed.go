package policy

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// Millionths is a rate, a share or a quantile in millionths: 1,500,000 is 1.5. Everything that
// decides is an integer, so that two implementations agree bit for bit.
type Millionths uint32

// One is 1 in [Millionths].
const One Millionths = 1_000_000

// String returns the number in decimal, such as 0.840896.
func (m Millionths) String() string {
	whole := strconv.FormatUint(uint64(m/One), 10)
	rest := uint64(m % One)
	if rest == 0 {
		return whole
	}
	digits := strconv.FormatUint(uint64(One)+rest, 10)[1:]
	return whole + "." + strings.TrimRight(digits, "0")
}

// less returns the rate minus other, at least 0.
func (m Millionths) less(other Millionths) Millionths {
	if m <= other {
		return 0
	}
	return m - other
}

// share returns a share of the rate; at most all of it.
func (m Millionths) share(share Millionths) Millionths {
	return Millionths(min(uint64(m)*uint64(share)/uint64(One), uint64(m)))
}

// nearestRank returns the nearest rank of a quantile among count sorted values, as an index from 0:
// ⌈q · count⌉ − 1, and 0 for a quantile of 0.
func (m Millionths) nearestRank(count int) int {
	rank := (uint64(m)*uint64(count) + uint64(One) - 1) / uint64(One)
	return max(int(rank), 1) - 1
}

// accumulator turns a rate per query into whole events, query by query. Each step returns the floor
// or the ceiling of the rate, and after any number of steps the total is exactly ⌊steps · rate⌋.
type accumulator struct {
	// owed is what is owed beyond the events already returned; always below one.
	owed Millionths
}

// step returns the number of events that are due with this query.
func (a *accumulator) step(rate Millionths) uint32 {
	owed := a.owed + rate
	a.owed = owed % One
	return uint32(owed / One)
}

// banded returns the mean if the value differs from it by at most band of the mean, so that chance
// makes no difference. Otherwise it returns the value.
func banded(value, mean, band uint64) uint64 {
	difference := max(value, mean) - min(value, mean)
	if difference > ints.MulDiv(mean, band, uint64(One)) {
		return value
	}
	return mean
}

// mulShift returns a · b / 2^shift, rounded down, at most 2^64 − 1. The shift is from 1 to 63.
func mulShift(a, b uint64, shift uint) uint64 {
	high, low := bits.Mul64(a, b)
	if high>>shift != 0 {
		return math.MaxUint64
	}
	return high<<(64-shift) | low>>shift
}

// follow moves a mean by 1/count of the way towards a new value, as for a mean over count values. A
// count of 0 counts as 1.
func follow(mean, value, count uint64) uint64 {
	count = max(count, 1)
	if value >= mean {
		return mean + (value-mean)/count
	}
	return mean - (mean-value)/count
}
