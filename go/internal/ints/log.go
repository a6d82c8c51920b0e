package ints

import "math/bits"

// LogPlaces is the number of binary places of Log2.
const LogPlaces = 24

// Log2 returns the binary logarithm with LogPlaces binary places, rounded down. It is 0 for 0.
func Log2(value uint64) uint64 {
	if value == 0 {
		return 0
	}
	integer := bits.Len64(value) - 1
	log := uint64(integer)
	// The mantissa is from 1 to 2, with 31 binary places. Each square that reaches 2 adds a place.
	rest := value << (63 - integer) >> 32
	for range LogPlaces {
		rest = rest * rest >> 31
		place := rest >> 32
		rest >>= place
		log = log<<1 | place
	}
	return log
}

// MinusLog2 returns −log2(fraction / 2^64) with 56 binary places. A fraction of 0 counts as 1.
//
// It is fast, since it interpolates between 257 values. It never rises with the fraction, and is
// too high by less than 0.2 %.
func MinusLog2(fraction uint64) uint64 {
	fraction |= 1
	zeros := bits.LeadingZeros64(fraction)
	mantissa := fraction << zeros
	place := mantissa >> 55 & 0xff
	upper, lower := steps[place], steps[place+1]
	rest := 1<<32 - mantissa>>23&0xffffffff
	return (uint64(zeros)<<LogPlaces+lower)<<32 + (upper-lower)*rest
}

// steps has 1 − log2(1 + place / 256) at each place, with LogPlaces binary places.
var steps = func() (steps [257]uint64) {
	for place := range steps {
		steps[place] = 9<<LogPlaces - Log2(256+uint64(place))
	}
	return steps
}()
