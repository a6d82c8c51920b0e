package health

import (
	"math/bits"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// sample is the number of queries that ended, and how many of them failed.
type sample struct {
	queries  uint64
	failures uint64
}

func (s *sample) add(other sample) {
	s.queries = ints.Add(s.queries, other.queries)
	s.failures = ints.Add(s.failures, other.failures)
}

// without returns everything except part.
func (s sample) without(part sample) sample {
	return sample{
		queries:  ints.Sub(s.queries, part.queries),
		failures: ints.Sub(s.failures, part.failures),
	}
}

// evidenceBits returns how strong the evidence is that a replica fails more often than the others.
// By chance, own would have this many of the failures less than once in 2^bits (Chernoff's bound
// for draws with fixed odds). It is 0 if its part of the failures does not exceed its part of the
// queries.
//
// If the replica were as good as the others, each failure of the fleet would be its own with a
// probability equal to its part of the queries, at any failure rate of the fleet. The evidence is
// how unlikely its number of failures would then be. Both sides count. A single failure proves
// nothing where the others have had only a few dozen queries, and many failures prove nothing where
// the others fail as well.
func evidenceBits(own, others sample) uint64 {
	queries := ints.Add(own.queries, others.queries)
	failures := ints.Add(own.failures, others.failures)
	ownHigh, ownLow := bits.Mul64(own.failures, queries)
	usualHigh, usualLow := bits.Mul64(failures, own.queries)
	if ownHigh < usualHigh || (ownHigh == usualHigh && ownLow <= usualLow) {
		return 0
	}
	// For each side: failures × log2(failures / its proportional part of all failures).
	side := func(s sample) (high, low uint64) {
		return mulSigned(s.failures,
			int64(ints.Log2(s.failures)+ints.Log2(queries))-int64(ints.Log2(failures)+ints.Log2(s.queries)))
	}
	high, low := side(own)
	otherHigh, otherLow := side(others)
	low, carry := bits.Add64(low, otherLow, 0)
	high, _ = bits.Add64(high, otherHigh, carry)
	// The sum is a number of 128 bits with a sign. A negative one is no evidence.
	if high>>ints.LogPlaces != 0 {
		return 0
	}
	return high<<(64-ints.LogPlaces) | low>>ints.LogPlaces
}

// mulSigned returns the product as a number of 128 bits in two's complement.
func mulSigned(count uint64, factor int64) (high, low uint64) {
	if factor >= 0 {
		return bits.Mul64(count, uint64(factor))
	}
	high, low = bits.Mul64(count, uint64(-factor))
	low, borrow := bits.Sub64(0, low, 0)
	high, _ = bits.Sub64(0, high, borrow)
	return high, low
}
