package load

import (
	"math"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// CPUTotals is the CPU time of a replica since any fixed point in time.
type CPUTotals struct {
	// Used is the CPU time used.
	Used time.Duration
	// Threads are sums over single threads; absent if unknown. Then only latency shows the capacity.
	Threads policy.Optional[ThreadTotals]
	// LimitMillicores is the most that the replica may use at once, in thousandths of a core: a
	// quota, or the machine. 0 is unknown.
	LimitMillicores uint32
	// QuotaPeriod is the period of the quota; 0 if there is none. Threads that wait for the next
	// period are counted only when they run again, so only spans of several periods show the wait.
	QuotaPeriod time.Duration
}

// ThreadTotals are sums over the threads whose waits are known.
type ThreadTotals struct {
	// Used is the CPU time that these threads have used.
	Used time.Duration
	// Waited is the time for which they were ready to run and did not run.
	Waited time.Duration
}

// CapacitySource says where a capacity comes from.
type CapacitySource uint8

// The sources.
const (
	// SourceNone: no capacity is known.
	SourceNone CapacitySource = iota
	// SourceWaits: how long the replica's threads waited for a CPU.
	SourceWaits
	// SourceLatency: how latency grows with RIF.
	SourceLatency
	// SourceCores: the cores that the replica may use; other estimates are more than these carry.
	SourceCores
)

// String returns the source's name.
func (s CapacitySource) String() string {
	switch s {
	case SourceWaits:
		return "waits"
	case SourceLatency:
		return "latency"
	case SourceCores:
		return "cores"
	}
	return "none"
}

// Capacities are in 1/1024 of a thousandth of a request in flight: fine enough to grow by a little
// at each reading.
const (
	fine = 1 << 10
	// oneRIF is one request in flight.
	oneRIF = 1_000 * fine
	// capacityMin is a hundredth of a query, which then takes a hundred times as long as on a core of
	// its own.
	capacityMin = oneRIF / 100
	// capacityMax is a million. At that value no replica is the tightest one.
	capacityMax = 1_000_000 * oneRIF
	// growthPercent is the growth of a capacity per second while nothing shows that it is reached:
	// slow enough that few queries test it, and fast enough that a replica that looked small by
	// chance, or has healed, is not small for long.
	growthPercent = 12
	// inUsePercent: a capacity grows only while this part of it is in use. Unused capacity proves
	// nothing.
	inUsePercent = 70
	// quotaPeriods: waits for a quota's next period are reported up to a period late. Over this many
	// periods little is missed.
	quotaPeriods = 2
	// doublingNS is the shortest time in which a capacity doubles, however much was carried without
	// a wait: a burst that was paid for by saved-up quota is not what the replica can carry.
	doublingNS = 250_000_000
)

// CapacityEstimator learns how many queries in flight a replica can carry, and what a query costs,
// from readings of its tracker and of its CPU time.
//
// With as many queries in flight as the capacity a replica is busy, and one more slows all of them.
// If it gets only a share of what its queries could use, that share times the RIF is what it could
// have carried without any wait. If it gets all, its capacity is at least the RIF that it carried,
// and is raised a little each second: only a higher load shows whether there is more room.
// Long-running requests are left out. The reported capacity is that of the others plus the
// long-running ones.
//
// The zero value knows nothing. A CapacityEstimator has no clock and is not safe for concurrent
// use.
type CapacityEstimator struct {
	hasRead bool
	last    capacityReading
	// Queries that have ended since the first reading.
	ended           uint64
	contention      contention
	inflation       inflation
	longRunning     longRunning
	cost            meanCost
	limitMillicores uint32
	// The readings include how long threads wait.
	showsWaits bool
}

type capacityReading struct {
	// Where the next span begins: when the reading was taken, or the end of the idle time after it.
	at        policy.Instant
	takenAt   policy.Instant
	rif       uint32
	rifTimeNS uint64
	endedNS   uint64
	busyNS    uint64
	finished  uint64
	// The number of samples that the tracker had recorded.
	recorded uint64
	cpu      policy.Optional[CPUTotals]
}

// Read takes a reading: of the tracker, of the queries finished since the start, and of the CPU if
// known. One that is not due is ignored. [CapacityEstimator.Look] says whether a reading is worth
// its cost.
func (e *CapacityEstimator) Read(now policy.Instant, tracker *Tracker, finished uint64, cpu policy.Optional[CPUTotals]) {
	if !e.Due(now) {
		return
	}
	reading := capacityReading{
		at: now, takenAt: now, rif: tracker.RIF(), rifTimeNS: tracker.RIFTime(now),
		endedNS: tracker.endedNS.Load(), busyNS: tracker.BusyTime(now), finished: finished,
		recorded: tracker.samples.recorded(), cpu: cpu,
	}
	before, isFirst := e.last, !e.hasRead
	e.last, e.hasRead = reading, true
	if isFirst {
		return
	}
	e.ended = ints.Add(e.ended, reading.recorded-before.recorded)
	span := reading.spanSince(&before)
	e.longRunning.read(&span, reading.endedNS-before.endedNS)
	span.rifTimeNS = e.longRunning.othersTime(&span)
	e.readCPU(span, &before, &reading)
	longRunning := e.longRunning.whole()
	learn := func(others uint32, latencyNS uint64) { e.inflation.learn(ints.Sub(others, longRunning), latencyNS) }
	tracker.samples.between(before.recorded, reading.recorded, before.at, learn)
	e.inflation.read(span.ns, span.passedNS, !e.showsWaits || e.contention.waitsElsewhere())
}

// readCPU learns from CPU time, and from requests in flight without the long-running ones.
func (e *CapacityEstimator) readCPU(span contentionSpan, before, reading *capacityReading) {
	if !before.cpu.Known || !reading.cpu.Known {
		return
	}
	earlier, cpu := &before.cpu.Value, &reading.cpu.Value
	e.limitMillicores = cpu.LimitMillicores
	e.showsWaits = earlier.Threads.Known && cpu.Threads.Known
	var elsewhereNS int64
	if e.showsWaits {
		if !before.wasIdle() || span.isOfQueries() {
			e.contention.read(span, ints.Mul(uint64(max(cpu.QuotaPeriod, 0)), quotaPeriods))
		}
		elsewhereNS = difference(span.rifTimeNS, span.wantedNS())
	}
	finished := ints.Sub(reading.finished, before.finished)
	// CPU time that a server uses on its own before its first query belongs to no query.
	if finished > 0 || reading.busyNS != before.busyNS {
		e.cost.read(spanBetween(earlier.Used, cpu.Used), elsewhereNS, finished)
	}
}

// spanSince returns what was measured since an earlier reading.
func (r *capacityReading) spanSince(before *capacityReading) contentionSpan {
	span := contentionSpan{ns: nsSince(r.takenAt, before.at), passedNS: nsSince(r.takenAt, before.takenAt)}
	span.busyNS = min(r.busyNS-before.busyNS, span.ns)
	// If a query comes or goes at the very moment of a reading, the time in flight may be off by all
	// that the clock shows, and in the next reading by as much the other way. The bound leaves out
	// only queries that came and were cancelled between the two readings.
	rifMost := ints.Add(uint64(max(r.rif, before.rif)), ints.Sub(r.finished, before.finished))
	span.rifTimeNS = min(r.rifTimeNS-before.rifTimeNS, ints.Mul(rifMost, span.passedNS))
	earlier, threads := before.cpu.Value.Threads, r.cpu.Value.Threads
	if earlier.Known && threads.Known {
		span.usedNS = spanBetween(earlier.Value.Used, threads.Value.Used)
		span.waitedNS = spanBetween(earlier.Value.Waited, threads.Value.Waited)
	}
	return span
}

// difference returns a − b, or 0 if that does not fit.
func difference(a, b uint64) int64 {
	switch size := absDiff(a, b); {
	case a >= b && size <= math.MaxInt64:
		return int64(size)
	case a < b && size <= 1<<63:
		return -int64(size)
	}
	return 0
}

// Fill fills in the report's capacity and cost, and returns the source of the capacity. Unknown
// values are absent. If the CPU time of queries is unknown, the latency of those that met few
// others stands for it.
func (e *CapacityEstimator) Fill(report *policy.LoadReport) CapacitySource {
	capacity, source := e.capacity()
	cost, costKnown := e.costNS()
	unloaded, unloadedKnown := e.inflation.unloadedNS()
	if source != SourceNone && costKnown && unloadedKnown && capacity < oneRIF {
		// A replica that carries less than one query, and whose queries take longer alone than their
		// cost. Slow cores mean a higher cost. A quota that lets each query run at full speed until
		// it is used up means less than one query at a time.
		slowest := ints.MulDiv(cost, oneRIF, capacity)
		alone := min(max(unloaded, cost), slowest)
		capacity, cost = ints.MulDiv(capacity, alone, cost), alone
	}
	report.CapacityMilliRIF = policy.Optional[uint32]{}
	if source != SourceNone {
		capacity = ints.Add(capacity, e.longRunning.count)
		report.CapacityMilliRIF = policy.Some(uint32(min(capacity/fine, math.MaxUint32)))
	}
	report.Cost = policy.Optional[time.Duration]{}
	if costKnown {
		report.Cost = policy.Some(duration(cost))
	}
	return source
}

func (e *CapacityEstimator) costNS() (uint64, bool) {
	if _, ok := e.cost.meanNS(); ok {
		return e.cost.comparedNS()
	}
	return e.inflation.unloadedNS()
}

// capacity returns what is known so far.
func (e *CapacityEstimator) capacity() (uint64, CapacitySource) {
	capacity, source := e.contention.capacity, SourceWaits
	byLatency := e.inflation.capacity
	// Queries that wait off the CPU may be in a queue. Until latency shows what one takes without
	// others, the whole queue would count as carried.
	mayBeQueue := e.contention.waitsElsewhere() && !e.contention.isRecent()
	if mayBeQueue && !byLatency.Known {
		return 0, SourceNone
	}
	switch {
	case capacity.Known && byLatency.Known:
		// Latency is the noisier of the two. It counts if it shows a bottleneck other than the CPU:
		// a lock, a queue in the application, a disk.
		isLess := byLatency.Value < capacity.Value &&
			(byLatency.Value < capacity.Value/2 || !e.contention.isRecent())
		if isLess && e.inflation.isRecent() {
			capacity, source = byLatency, SourceLatency
		}
	case byLatency.Known:
		capacity, source = byLatency, SourceLatency
	case !capacity.Known:
		return 0, SourceNone
	}
	if most, ok := e.most(); ok && most <= capacity.Value {
		capacity.Value, source = most, SourceCores
	}
	return min(max(capacity.Value, capacityMin), capacityMax), source
}

// most returns what all cores together could carry: queries finished per second × seconds that one
// takes without others and without waiting for a CPU (Little's law).
func (e *CapacityEstimator) most() (uint64, bool) {
	mean, ok := e.cost.meanNS()
	if !ok || e.limitMillicores == 0 {
		return 0, false
	}
	mean = max(mean, 1)
	byLatency, known := e.inflation.unloadedNS()
	alone := max(byLatency, mean)
	if e.showsWaits {
		byCPU := ints.Add(mean, e.cost.meanElsewhereNS())
		if !known {
			alone = byCPU
		}
		alone, known = min(alone, byCPU), true
	}
	return ints.MulDiv(uint64(e.limitMillicores)*fine, alone, mean), known
}

// grow raises a capacity that nothing shows to be reached, after a span with this many in flight,
// of which carried surely had no wait. Growth is in proportion, so that it begins at the least
// capacity.
func grow(capacity, inFlight, carried, spanNS uint64) uint64 {
	capacity = max(capacity, capacityMin)
	within := func(mostNS uint64) uint64 { return ints.MulDiv(capacity, min(spanNS, nsPerSecond), mostNS) }
	grown := capacity
	if inFlight >= ints.MulDiv(capacity, inUsePercent, 100) {
		grown = ints.Add(capacity, within(100*nsPerSecond/growthPercent))
	}
	believed := ints.Add(capacity, within(doublingNS))
	return min(max(grown, min(carried, believed)), capacityMax)
}
