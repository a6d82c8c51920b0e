package policy

import (
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// ratesWindowNS is the time that the rates cover which replicas report (see package load). A
	// client's own counts cover as much: a reading lets as much of the older ones fade as its part of
	// this time.
	ratesWindowNS = uint64(4 * time.Second)
	// readingNS is the shortest time between two readings of what is counted. With a second, a
	// replica that becomes slow is found too late.
	readingNS = uint64(100 * time.Millisecond)
)

// recentQueries are queries of this client in recent seconds, and how long they were in flight.
type recentQueries struct {
	// readAt is when the totals were last read. It is absent before.
	readAt         Optional[Instant]
	queriesRead    uint64
	inFlightReadNS uint64
	// queries is in 1/1024.
	queries uint64
	// inFlightNS is queries in flight, integrated over spanNS.
	inFlightNS uint64
	spanNS     uint64
}

// read takes in how many queries there were since the beginning, and queries in flight integrated
// over that time, wrapping. Of a query that never reached the replica no time counts, so there may
// be less than before.
func (r *recentQueries) read(now Instant, queries, inFlightNS uint64) {
	if readAt, known := r.readAt.Get(); known {
		sinceNS := now.nsSince(readAt)
		if sinceNS < readingNS {
			return
		}
		// The mean of a longer time counts.
		spanNS := min(sinceNS, ratesWindowNS)
		keptNS := ratesWindowNS - spanNS
		newer := func(count uint64) uint64 { return ints.MulDiv(count, spanNS, sinceNS) }
		add := func(sum *uint64, newer uint64) {
			*sum = ints.Add(ints.MulDiv(*sum, keptNS, ratesWindowNS), newer)
		}
		add(&r.queries, newer(ints.Mul(queries-r.queriesRead, fine)))
		add(&r.inFlightNS, newer(uint64(max(int64(inFlightNS-r.inFlightReadNS), 0))))
		add(&r.spanNS, spanNS)
	}
	r.readAt = Some(now)
	r.queriesRead, r.inFlightReadNS = queries, inFlightNS
}

// ofOthers returns the queries of others for each of these, in 1/1024, if this many of all
// clients end in a second, in thousandths. It returns false if there were none of these.
func (r *recentQueries) ofOthers(allRateMillis uint64) (uint64, bool) {
	if r.queries == 0 {
		return 0, false
	}
	all := ints.MulDiv(allRateMillis, r.spanNS, rateNS/fine)
	return ints.MulDiv(ints.Sub(all, r.queries), fine, r.queries), true
}
