package load

import (
	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const (
	// inflatedBelow: the replica is over its capacity when queries that meet few others take less
	// than this share of what the newest take, in 1/1024. It would be higher without noise.
	inflatedBelow = fine * 6 / 10
	// unloadedMemory is the number of queries in the mean of the unloaded latency.
	unloadedMemory = 300
	// rifMemory is the number of queries in the mean RIF. Half of that mean or less is few others.
	rifMemory = 1_000
	// newestMin and newestMax are the fewest and the most queries in the mean of the current latency.
	newestMin = 24
	newestMax = 1_024
	// newestByVariation: between the two, as many queries as a standard error of 8 % needs. That is
	// this many times their squared coefficient of variation.
	newestByVariation = 156
	// settledTimes: the first queries to end are the shortest of the earliest arrivals. Nothing is
	// learned before this many times the highest RIF have ended, for then few of the longer queries
	// are missing.
	settledTimes = 3
	// inflationQueriesMin is the number of queries before which nothing is known.
	inflationQueriesMin = 32
	// aloneRIF: queries that met up to this RIF in the mean, themselves included, count as alone.
	aloneRIF = oneRIF * 3 / 2
	// contrast is how many times higher the RIF of the newest queries must be than that of the
	// unloaded ones, in 1/1024, to show whether the unloaded ones were slowed down themselves.
	contrast = fine * 3 / 2
)

// rootOf returns the square root of nanoseconds, in 1/16.
func rootOf(latencyNS uint64) uint64 { return ints.Sqrt(ints.Mul(latencyNS, 256)) }

// squareOf is the inverse of rootOf.
func squareOf(root uint64) uint64 { return ints.MulDiv(root, root, 256) }

// inflation estimates capacity from how latency grows with RIF. It needs only what the tracker
// sees, and detects every bottleneck.
//
// Queries that meet few others show the latency without load. If the newest take twice as long, the
// replica could have carried half of them. The mean of a few latencies is unreliable where they
// vary widely. So means are of square roots, which a few long queries move less, and over as many
// queries as they need to be accurate. Each query only adds to sums; the means follow once per
// reading.
type inflation struct {
	// Sums of the current reading.
	sums inflationSums
	// Queries that met up to this RIF met few others. Queries that were alone always did.
	few uint64
	// Queries that ended before learning starts, and the highest RIF among them.
	early, earlyRIFMax uint64
	isSettled          bool
	queries            uint64
	// The queries that met few others, with the mean and the variance of their roots, and the RIF
	// that they met.
	unloadedQueries, unloaded, variance, unloadedRIF uint64
	// Means over the newest queries.
	newest, newestRIF uint64
	// The mean RIF over many queries.
	usualRIF uint64
	capacity policy.Optional[uint64]
	// The queries that met few others were not slowed down by them. If all queries met as many
	// others, as with clients that keep a fixed number in flight, the latency without others cannot
	// be known.
	isSure bool
	shortage
}

// inflationSums are sums over the queries of one reading.
type inflationSums struct {
	queries, roots uint64
	// The RIF that they met, themselves included.
	rif uint64
	// Of those that met few others, with the squared distances of their roots from the former mean.
	few, fewRoots, fewRIF, fewSquares uint64
}

// learn adds a query with this latency that met this many others.
func (n *inflation) learn(others uint32, latencyNS uint64) {
	rif := uint64(others) + 1
	if !n.isSettled {
		n.early++
		n.earlyRIFMax = max(n.earlyRIFMax, rif*oneRIF)
		n.isSettled = n.early*oneRIF > n.earlyRIFMax*settledTimes
		return
	}
	root := rootOf(latencyNS)
	sums := &n.sums
	sums.queries++
	sums.roots += root
	sums.rif += rif
	if rif*oneRIF <= max(n.few, oneRIF) || n.queries+sums.queries <= inflationQueriesMin {
		distance := absDiff(root, n.unloaded)
		sums.few++
		sums.fewRoots += root
		sums.fewRIF += rif
		sums.fewSquares = ints.Add(sums.fewSquares, ints.Mul(distance, distance))
	}
}

// read learns from the queries that were added since the last reading, and ended within the last
// spanNS. With the idle time before it, that is passedNS. Only if they may have waited for
// something other than a CPU can their latency show a shortage.
func (n *inflation) read(spanNS, passedNS uint64, mayWait bool) {
	sums := n.sums
	n.sums = inflationSums{}
	if sums.queries == 0 {
		return
	}
	n.follow(&sums)
	if n.queries >= inflationQueriesMin {
		n.find(sums.queries, spanNS, passedNS, mayWait)
	}
	// Without a capacity, the few so far may have waited, and any that met more waited longer.
	most := n.unloadedRIF + oneRIF/2
	if n.capacity.Known {
		most = n.capacity.Value
	}
	n.few = min(n.usualRIF/2, most)
}

// follow moves the means towards the newest queries.
func (n *inflation) follow(sums *inflationSums) {
	count := sums.queries
	n.queries += count
	rif := ints.MulDiv(sums.rif, oneRIF, count)
	n.usualRIF = ints.Towards(n.usualRIF, rif, count, min(rifMemory, n.queries))
	if sums.few > 0 {
		n.followFew(sums)
	}
	memory := min(n.newestMemory(), n.queries)
	n.newest = ints.Towards(n.newest, sums.roots/count, count, memory)
	n.newestRIF = ints.Towards(n.newestRIF, rif, count, memory)
}

func (n *inflation) followFew(sums *inflationSums) {
	count := sums.few
	n.unloadedQueries += count
	memory := min(unloadedMemory, n.unloadedQueries)
	if !n.isSure {
		memory = min(inflationQueriesMin, n.unloadedQueries)
		n.unloadedRIF = ints.Towards(n.unloadedRIF, ints.MulDiv(sums.fewRIF, oneRIF, count), count, memory)
	}
	squared := func(distance uint64) uint64 { return ints.Mul(distance, distance) }
	mean, before := sums.fewRoots/count, n.unloaded
	n.unloaded = ints.Towards(before, mean, count, memory)
	// The variance around the new mean: remove the distance of the old mean from these queries, and
	// add that of the new one.
	variance := ints.Sub(sums.fewSquares/count, squared(absDiff(mean, before)))
	variance = ints.Add(variance, squared(absDiff(mean, n.unloaded)))
	n.variance = ints.Towards(n.variance, variance, count, memory)
}

// find updates the capacity after count more queries and this much time.
func (n *inflation) find(count, spanNS, passedNS uint64, mayWait bool) {
	unloaded, known := n.unloadedNS()
	if !known {
		// It is no share of anything, so nothing shows a shortage.
		n.wasNotFor(passedNS)
		return
	}
	n.isSure = n.isSure || n.wasNotSlowedDown()
	if !n.isSure {
		return
	}
	got := ints.MulDiv(unloaded, fine, squareOf(n.newest))
	capacity := n.capacity.Value
	if !n.capacity.Known {
		capacity = n.newestRIF
	}
	if got < inflatedBelow && mayWait {
		n.isNow()
		carried := ints.MulDiv(n.newestRIF, got, fine)
		n.capacity = policy.Some(ints.Towards(capacity, carried, count, n.newestMemory()))
		return
	}
	n.wasNotFor(passedNS)
	n.capacity = policy.Some(grow(capacity, n.newestRIF, n.newestRIF, spanNS))
}

// wasNotSlowedDown reports whether the queries that met few others were alone, or took hardly less
// than others that met many more. If they had had to wait, latency would have grown as much as RIF.
// Growth below the square root of that is less than halfway.
func (n *inflation) wasNotSlowedDown() bool {
	moreRIF := ints.MulDiv(n.newestRIF, fine, n.unloadedRIF)
	longer := ints.MulDiv(squareOf(n.newest), fine, squareOf(n.unloaded))
	grewLittle := ints.MulDiv(longer, longer, fine) <= moreRIF
	return n.unloadedRIF <= aloneRIF || moreRIF >= contrast && grewLittle
}

func (n *inflation) newestMemory() uint64 {
	memory := ints.MulDiv(newestByVariation, n.variance, ints.Mul(n.unloaded, n.unloaded))
	return min(max(memory, newestMin), newestMax)
}

// unloadedNS returns the latency of a query that meets few others. It is too high while it is not
// certain that they were few. It is unknown if it is too short for the clock.
func (n *inflation) unloadedNS() (uint64, bool) {
	unloaded := squareOf(n.unloaded)
	return unloaded, unloaded > 0 && n.queries >= inflationQueriesMin
}
