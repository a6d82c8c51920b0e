package policy

import "slices"

// rifMemory is how many responses the estimate of the RIF limit remembers.
const rifMemory = 128

// rifDistribution is the RIF of recent probe responses. The RIF limit, from which a report counts
// as hot, is a quantile of it.
//
// It does not use the pool: the reports left there are a biased sample, and with one of its own
// elements as the limit, the pool could never be all hot. It uses only responses of available
// replicas: one that drains or is ejected runs empty, and must not define hot and cold where
// queries do go.
type rifDistribution struct {
	// ring is in order of arrival, wrapping at next.
	ring [rifMemory]uint32
	// sorted has the values of ring in ascending order; only the first count are used.
	sorted [rifMemory]uint32
	next   int
	count  int
}

func (d *rifDistribution) isEmpty() bool { return d.count == 0 }

// clear forgets everything.
func (d *rifDistribution) clear() { d.next, d.count = 0, 0 }

// record records a response, and forgets the oldest if there are too many.
func (d *rifDistribution) record(rif uint32) {
	oldest := d.ring[d.next]
	d.ring[d.next] = rif
	d.next = (d.next + 1) % rifMemory
	if d.count == rifMemory {
		gap, _ := slices.BinarySearch(d.sorted[:], oldest)
		copy(d.sorted[gap:], d.sorted[gap+1:])
		d.count--
	}
	at, _ := slices.BinarySearch(d.sorted[:d.count], rif)
	copy(d.sorted[at+1:], d.sorted[at:d.count])
	d.sorted[at] = rif
	d.count++
}

// limit returns the RIF from which a report is hot: the nearest-rank quantile. At 0 the limit is 0
// (everything is hot), at 1 there is none (everything is cold).
func (d *rifDistribution) limit(quantile Millionths) Optional[uint32] {
	switch {
	case quantile == 0:
		return Some(uint32(0))
	case quantile == One || d.count == 0:
		return Optional[uint32]{}
	default:
		return Some(d.sorted[quantile.nearestRank(d.count)])
	}
}
