package health

import (
	"math"
	"math/bits"

	"github.com/slackwater/slackwater/go/policy"
)

// whole is a share of all, in millionths.
const whole uint32 = 1_000_000

// unsigned is the types that saturate instead of wrapping around.
type unsigned interface{ ~uint32 | ~uint64 }

// addSat returns a + b, or the largest number if that is too large.
func addSat[T unsigned](a, b T) T {
	if sum := a + b; sum >= a {
		return sum
	}
	return ^T(0)
}

// subSat returns a - b, or 0 if that is negative.
func subSat[T unsigned](a, b T) T {
	if a < b {
		return 0
	}
	return a - b
}

// mulSat returns a * b, or the largest number if that is too large.
func mulSat(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}

// mulDiv returns a * b / c, rounded down, or the largest number if that is too large. c is above 0.
func mulDiv(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high >= c {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(high, low, c)
	return quotient
}

// sqrt returns the square root, rounded down.
func sqrt(value uint64) uint64 {
	root := uint64(0)
	for bit := uint64(1) << 31; bit > 0; bit >>= 1 {
		if next := root | bit; next*next <= value {
			root = next
		}
	}
	return root
}

// since returns the nanoseconds from earlier to now, or 0 if earlier is later.
func since(now, earlier policy.Instant) uint64 { return uint64(subSat(now, earlier)) }

// after returns the instant that many nanoseconds later.
func after(now policy.Instant, ns uint64) policy.Instant { return addSat(now, policy.Instant(ns)) }
