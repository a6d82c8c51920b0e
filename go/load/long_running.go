package load

import (
	"math"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// longNS: a query that ends counts with at most this of its time in flight. Beyond that it was
	// rather long-running.
	longNS = 8_000_000_000
	// timesMin: up to this many times what ended, the mean RIF shows no long-running requests, in
	// 1/1024. Queues that come and go reach it.
	timesMin = 3 * fine
	// timesSpan: how many times more it must be until all of the difference is long-running, in
	// 1/1024.
	timesSpan = 2 * fine
	// leastNS: the fewest are those of up to this time and of as much before it: 4 to 8 s.
	leastNS = 4_000_000_000
)

// longRunning is how many requests in flight are long-running: streams, and others that take far
// longer than most.
//
// They are in flight, and load the replica hardly at all. How many there are depends on chance and
// changes within seconds; what the replica can carry of other requests does not. By Little's law,
// the mean RIF is the time that requests which end were in flight, for each second. If it is far
// more, the rest is long-running. While a queue grows the mean RIF is more, too, and so it is where
// requests compute for minutes. So no more requests count than were in flight, and not at a CPU,
// for all of the last seconds.
type longRunning struct {
	// The mean RIF, and as much of it as requests that ended explain. Both have a time constant of
	// longNS.
	rif, ended uint64
	// The fewest requests off the CPU in a reading of the last sinceNS, and in the leastNS before
	// that.
	least, leastBefore, sinceNS uint64
	count                       uint64
}

// read takes in a span with all requests, and how long those that ended in it had been in flight,
// each up to longNS.
func (l *longRunning) read(all *contentionSpan, endedNS uint64) {
	passedNS := all.passedNS
	mean := func(timeNS uint64) uint64 { return ints.MulDiv(timeNS, oneRIF, passedNS) }
	rif, ended := mean(all.rifTimeNS), mean(endedNS)
	offCPU := mean(ints.Sub(all.rifTimeNS, all.wantedNS()))
	l.rif = ints.Towards(l.rif, rif, passedNS, longNS)
	l.ended = ints.Towards(l.ended, ended, passedNS, longNS)
	l.sinceNS = ints.Add(l.sinceNS, passedNS)
	if l.sinceNS > leastNS {
		l.least, l.leastBefore, l.sinceNS = offCPU, l.least, 0
	}
	l.least = min(l.least, offCPU)
	times := ints.MulDiv(l.rif, fine, l.ended)
	part := min(ints.Sub(times, timesMin), timesSpan)
	l.count = min(ints.MulDiv(ints.Sub(l.rif, l.ended), part, timesSpan), l.least, l.leastBefore)
}

// whole returns the whole ones of them.
func (l *longRunning) whole() uint32 { return uint32(min(l.count/oneRIF, math.MaxUint32)) }

// othersTime returns the requests in flight, integrated over a span, that are not long-running.
func (l *longRunning) othersTime(all *contentionSpan) uint64 {
	return ints.Sub(all.rifTimeNS, ints.MulDiv(l.count, all.passedNS, oneRIF))
}
