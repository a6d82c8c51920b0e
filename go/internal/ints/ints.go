// Package ints is the arithmetic of packages policy, health and load: whole numbers that saturate
// instead of wrapping around, as in the Rust crate slackwater-core.
package ints

import (
	"math"
	"math/bits"
)

// Unsigned is the types that saturate.
type Unsigned interface{ ~uint32 | ~uint64 }

// Add returns a + b, or the largest number if that is too large.
func Add[T Unsigned](a, b T) T {
	if sum := a + b; sum >= a {
		return sum
	}
	return ^T(0)
}

// Sub returns a − b, or 0 if that is negative.
func Sub[T Unsigned](a, b T) T { return a - min(a, b) }

// Mul returns a · b, at most 2^64 − 1.
func Mul(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}

// MulDiv returns a · b / c, rounded down and at most 2^64 − 1. A c of 0 counts as 1.
func MulDiv(a, b, c uint64) uint64 {
	c = max(c, 1)
	high, low := bits.Mul64(a, b)
	if high >= c {
		return math.MaxUint64
	}
	quotient, _ := bits.Div64(high, low, c)
	return quotient
}

// Towards returns from, moved towards to by part of whole, or all the way.
func Towards(from, to, part, whole uint64) uint64 {
	part = min(part, whole)
	if to >= from {
		return from + MulDiv(to-from, part, whole)
	}
	return from - MulDiv(from-to, part, whole)
}

// Sqrt returns the square root, rounded down. The root of the floating-point unit is only a guess,
// which whole numbers then correct.
func Sqrt(n uint64) uint64 {
	root := min(uint64(math.Sqrt(float64(n))), math.MaxUint32)
	for root*root > n {
		root--
	}
	for root < math.MaxUint32 && (root+1)*(root+1) <= n {
		root++
	}
	return root
}
