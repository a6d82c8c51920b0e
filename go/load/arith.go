package load

import (
	"math"
	"math/bits"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const nsPerSecond = uint64(time.Second)

func absDiff(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// uint128 is an unsigned number of 128 bits.
type uint128 struct{ hi, lo uint64 }

func square128(n uint64) uint128 {
	hi, lo := bits.Mul64(n, n)
	return uint128{hi, lo}
}

func (n uint128) div(by uint64) uint128 {
	lo, _ := bits.Div64(n.hi%by, n.lo, by)
	return uint128{n.hi / by, lo}
}

// divWide divides by a number of more than 64 bits.
func (n uint128) divWide(by uint128) uint64 {
	var quotient uint64
	for shift := bits.LeadingZeros64(by.hi); shift >= 0; shift-- {
		part := uint128{by.hi<<shift | by.lo>>(64-shift), by.lo << shift}
		if part.lessOrEqual(n) {
			var borrow uint64
			n.lo, borrow = bits.Sub64(n.lo, part.lo, 0)
			n.hi, _ = bits.Sub64(n.hi, part.hi, borrow)
			quotient |= 1 << shift
		}
	}
	return quotient
}

// mul returns a product that is known to fit.
func (n uint128) mul(by uint64) uint128 {
	hi, lo := bits.Mul64(n.lo, by)
	return uint128{n.hi*by + hi, lo}
}

func (n uint128) saturatingAdd(other uint128) uint128 {
	lo, carry := bits.Add64(n.lo, other.lo, 0)
	hi, carry := bits.Add64(n.hi, other.hi, carry)
	if carry != 0 {
		return uint128{math.MaxUint64, math.MaxUint64}
	}
	return uint128{hi, lo}
}

func (n uint128) lessOrEqual(other uint128) bool {
	return n.hi < other.hi || n.hi == other.hi && n.lo <= other.lo
}

// nsSince returns the nanoseconds from earlier to later; 0 if that is not later.
func nsSince(later, earlier policy.Instant) uint64 {
	return ints.Sub(uint64(later), uint64(earlier))
}

// spanNS returns a span in nanoseconds; a negative one counts as 0.
func spanNS(span time.Duration) uint64 { return uint64(max(span, 0)) }

// spanBetween returns the span from earlier to later in nanoseconds, at least 0.
func spanBetween(earlier, later time.Duration) uint64 {
	return ints.Sub(spanNS(later), spanNS(earlier))
}

// duration returns a span of this many nanoseconds, at most the longest that can be expressed.
func duration(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }
