package policy

import (
	"math"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// ownSamples is the number of latencies that a client remembers for each unprobed replica.
	ownSamples = 16
	// ownWindowNS: samples up to this age make up the estimate alone if there are ownWindowMin.
	ownWindowNS  = uint64(20 * time.Millisecond)
	ownWindowMin = 5
	// ownAgeMaxNS is the age at which a sample is no longer used.
	ownAgeMaxNS = uint64(3 * time.Second)
	// nearestInWindow is the most samples within the window in a median: those nearest in RIF.
	nearestInWindow = 9
	// nearestRemembered is the most of the older samples in a median, if the window has too few:
	// fewer, so that the RIF counts more.
	nearestRemembered = 5
)

// localArrival is a query as this client's own tracker of an unprobed replica saw it.
type localArrival struct {
	at Instant
	// watch is the number of the watch in which it was sent; 0 is none.
	watch uint32
	// others is the number of other queries in flight at arrival: it predicts what the next one
	// meets.
	others    uint32
	headReady bool
}

// queryEnd is how a query ended for its replica.
type queryEnd uint8

const (
	// endNever: the replica never saw it.
	endNever queryEnd = iota
	endSuccess
	endFailed
	endCancelled
)

func endOf(outcome Outcome) queryEnd {
	switch outcome {
	case OutcomeSuccess:
		return endSuccess
	case OutcomeDropped:
		return endCancelled
	case OutcomeNoConnection:
		return endNever
	default:
		return endFailed
	}
}

// ownTracker estimates the latency of an unprobed replica from this client's own queries, as a
// replica's own tracker would (package load): the median of recent latencies near the current RIF,
// or, while nothing ends there, the time without progress.
type ownTracker struct {
	watch   uint32
	rif     uint32
	waiting uint32
	// spentNS is minus the time of each arrival, plus that of each end, wrapping.
	spentNS uint64
	// sent counts queries, and recent has those of the last seconds.
	sent   uint64
	recent recentQueries
	// progressAt is when a query was last answered, or the replica last began to wait for one.
	progressAt Instant
	// stalledNS is how long a query had seen no progress when its client gave it up, at stalledAt. 0
	// once a query succeeds.
	stalledNS uint64
	stalledAt Instant
	// ring has the samples in order of time, wrapping at next.
	ring [ownSamples]ownSample
	next int
	// count is the number of samples.
	count int
}

type ownSample struct {
	others     uint32
	latencyNS  uint64
	finishedAt Instant
}

func (o *ownTracker) arrive(now Instant) localArrival {
	arrival := localArrival{at: now, watch: o.watch, others: o.rif}
	if o.waiting == 0 {
		// An idle replica makes no progress but is not stalled.
		o.progressAt = max(o.progressAt, now)
	}
	o.rif++
	o.sent++
	o.spentNS -= uint64(now)
	o.waiting++
	return arrival
}

// headReady notes that the response head is ready. Latency ends here. Only the first call counts.
func (o *ownTracker) headReady(now Instant, arrival *localArrival, end queryEnd) {
	if arrival.headReady || end == endNever {
		return
	}
	arrival.headReady = true
	o.waiting = ints.Sub(o.waiting, 1)
	switch end {
	case endSuccess:
		o.ring[o.next] = ownSample{others: arrival.others, latencyNS: now.nsSince(arrival.at), finishedAt: now}
		o.next = (o.next + 1) % ownSamples
		o.count = min(o.count+1, ownSamples)
		o.progressAt = max(o.progressAt, now)
		o.stalledNS = 0
	case endFailed:
		o.progressAt = max(o.progressAt, now)
	case endCancelled:
		// A query that was given up takes at least this long. Without this, a stopped replica would
		// look fast again as soon as its clients' deadlines have emptied it.
		stalledNS := min(now.nsSince(o.progressAt), now.nsSince(arrival.at))
		if o.recentlyStalled(now) {
			stalledNS = max(stalledNS, o.stalledNS)
		}
		o.stalledNS, o.stalledAt = stalledNS, now
	}
}

// finish notes that the query is over.
func (o *ownTracker) finish(now Instant, arrival localArrival, end queryEnd) {
	if end == endNever && !arrival.headReady {
		o.waiting = ints.Sub(o.waiting, 1)
	}
	o.headReady(now, &arrival, end)
	// A ticket that is returned twice must not make the count wrap.
	if o.rif == 0 {
		return
	}
	o.rif--
	if end == endNever {
		// It is as if it had never been.
		now = arrival.at
	}
	o.spentNS += uint64(now)
}

// rifTimeNS returns requests in flight, integrated over time until now, in nanoseconds, wrapping.
// The difference of two values over the time between them is the mean RIF.
func (o *ownTracker) rifTimeNS(now Instant) uint64 { return o.spentNS + uint64(o.rif)*uint64(now) }

// latencyNS returns the estimated latency of the next query; 0 if unknown.
func (o *ownTracker) latencyNS(now Instant) uint64 {
	floorNS := uint64(0)
	if o.waiting > 0 {
		floorNS = now.nsSince(o.progressAt)
	}
	if o.recentlyStalled(now) {
		floorNS = max(floorNS, o.stalledNS)
	}
	if medianNS, known := o.medianNS(now, ownAgeMaxNS); known {
		return max(medianNS, floorNS)
	}
	// A lower bound without any recent sample is more informative than an unknown latency if it is
	// longer than was usual. Of a new replica nothing is usual: a query that has just started would
	// make it look fast, and a long one slow.
	usualNS, known := o.medianNS(now, math.MaxUint64)
	if known && floorNS > usualNS || !known && floorNS >= ownAgeMaxNS {
		return floorNS
	}
	return 0
}

// recentlyStalled reports whether the last query that was given up still counts.
func (o *ownTracker) recentlyStalled(now Instant) bool { return now.nsSince(o.stalledAt) < ownAgeMaxNS }

// back returns the sample that was recorded this many places before the next one, from 1 on.
func (o *ownTracker) back(places int) *ownSample {
	return &o.ring[(o.next-places+ownSamples)%ownSamples]
}

// medianNS returns the median of recent latencies at or near the current RIF, of samples below this
// age: element ⌈k/2⌉ of the k samples that count. Samples within the window count alone if there
// are enough: they show the present. Otherwise the newest ones count, and over that longer time the
// samples at this RIF are the best predictors of the next query.
func (o *ownTracker) medianNS(now Instant, ageMaxNS uint64) (uint64, bool) {
	young, recent := 0, 0
	for young < o.count {
		ageNS := now.nsSince(o.back(young + 1).finishedAt)
		if ageNS >= ageMaxNS {
			break
		}
		young++
		if ageNS <= ownWindowNS {
			recent = young
		}
	}
	if recent >= ownWindowMin {
		return o.medianOfNearest(recent, nearestInWindow)
	}
	return o.medianOfNearest(young, nearestRemembered)
}

// medianOfNearest returns the median latency of those samples nearest in RIF among this many of the
// newest. Of equally near ones the newer count.
func (o *ownTracker) medianOfNearest(newest, most int) (uint64, bool) {
	if newest == 0 {
		return 0, false
	}
	// Distance in RIF and, below that, how far back the sample is.
	var nearest, latencies [ownSamples]uint64
	for i := range newest {
		sample := o.back(i + 1)
		distance := max(sample.others, o.rif) - min(sample.others, o.rif)
		insertSorted(nearest[:i+1], uint64(distance)<<32|uint64(i+1))
	}
	count := min(newest, most)
	for i := range count {
		insertSorted(latencies[:i+1], o.back(int(uint32(nearest[i]))).latencyNS)
	}
	return latencies[(count+1)/2-1], true
}

// insertSorted inserts a number into a sorted list, whose last place is free.
func insertSorted(sorted []uint64, number uint64) {
	at := len(sorted) - 1
	for ; at > 0 && sorted[at-1] > number; at-- {
		sorted[at] = sorted[at-1]
	}
	sorted[at] = number
}
