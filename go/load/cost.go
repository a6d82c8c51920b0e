package load

import (
	"math"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// costMemory is the number of queries that are remembered if that is enough, and costMemoryMax
	// if costs vary too widely for that.
	costMemory    = 300
	costMemoryMax = 30_000
	// costErrorAllowed is the largest standard error of a mean that is enough, in thousandths of the
	// mean: well within the quarter by which clients let replicas differ.
	costErrorAllowed = 70
	// costErrorCompared is the largest one of a mean that clients may compare: within that quarter.
	costErrorCompared = 200
	// costQueriesMin is the fewest queries of a mean.
	costQueriesMin = 8
	// costParts: queries are counted in parts, so that forgetting a few of them rounds off little.
	costParts = 1 << 10
)

// meanCost is the CPU time that a query takes, and how long it neither uses nor waits for a CPU:
// means over the newest queries, which forget as fast as their accuracy allows.
//
// Clients compare the mean between replicas. A mean over few queries of very different cost is
// worse than an old one, so it covers as many queries as it needs to be accurate. Until it is
// accurate enough to compare, it is not reported: a replica that looked expensive by chance would
// get no query that could show otherwise.
type meanCost struct {
	usedNS uint64
	// It may be negative for a while: a wait is reported when it is over.
	elsewhereNS int64
	queries     uint64 // in parts
	// The sum of the squared errors of each reading against the mean: the square of the standard
	// error of usedNS.
	errors uint128
}

// read takes in a reading: CPU time used, time that queries spent on something else, and the number
// of queries finished.
func (m *meanCost) read(usedNS uint64, elsewhereNS int64, finished uint64) {
	queries := ints.Mul(finished, costParts)
	// While no query has ended nothing is expected, so all of it is error.
	var expectedNS uint64
	if m.queries > 0 {
		expectedNS = ints.MulDiv(m.usedNS, queries, m.queries)
	}
	memory := uint64(costParts * costMemoryMax)
	if m.isWithin(costErrorAllowed) {
		memory = costParts * costMemory
	}
	kept := ints.Sub(memory, queries)
	m.usedNS = ints.Add(ints.MulDiv(m.usedNS, kept, memory), usedNS)
	m.elsewhereNS = saturatingAddSigned(scaleSigned(m.elsewhereNS, kept, memory), elsewhereNS)
	m.queries = ints.Add(ints.MulDiv(m.queries, kept, memory), queries)
	m.errors = m.errors.div(memory).mul(kept).saturatingAdd(square128(absDiff(expectedNS, usedNS)))
}

// isWithin reports whether the standard error of the mean is at most this many thousandths of it.
func (m *meanCost) isWithin(thousandths uint64) bool {
	return m.errors.lessOrEqual(square128(ints.MulDiv(m.usedNS, thousandths, 1_000)))
}

// meanNS returns the mean; it reports false before enough queries have finished.
func (m *meanCost) meanNS() (uint64, bool) {
	return ints.MulDiv(m.usedNS, costParts, m.queries), m.queries >= costQueriesMin*costParts
}

// comparedNS returns the mean once it is accurate enough that clients may compare it.
func (m *meanCost) comparedNS() (uint64, bool) {
	mean, ok := m.meanNS()
	return mean, ok && m.isWithin(costErrorCompared)
}

// meanElsewhereNS returns the mean time in which a query neither uses nor waits for a CPU: a disk,
// another service, a lock.
func (m *meanCost) meanElsewhereNS() uint64 {
	return ints.MulDiv(uint64(max(m.elsewhereNS, 0)), costParts, m.queries)
}

// scaleSigned returns n · part / whole, rounded towards 0; part is at most whole. A size that does
// not fit counts as 0.
func scaleSigned(n int64, part, whole uint64) int64 {
	size := uint64(n)
	if n < 0 {
		size = -size
	}
	scaled := ints.MulDiv(size, part, whole)
	switch {
	case scaled > math.MaxInt64:
		return 0
	case n < 0:
		return -int64(scaled)
	}
	return int64(scaled)
}

func saturatingAddSigned(a, b int64) int64 {
	sum := a + b
	if (a < 0) == (b < 0) && (sum < 0) != (a < 0) {
		if a < 0 {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	return sum
}
