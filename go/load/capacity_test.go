package load

import (
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	msNS     = uint64(time.Millisecond)
	secondNS = uint64(time.Second)
)

func learnMany(inflation *inflation, queries int, others uint32, latencyNS uint64) {
	for range queries {
		inflation.learn(others, latencyNS)
	}
}

// learnUnloaded adds queries that were alone and took as long as this.
func learnUnloaded(e *CapacityEstimator, latencyNS uint64) {
	learnMany(&e.inflation, 100, 0, latencyNS)
	e.inflation.read(0, 0, true)
}

type shown struct {
	milliRIF uint64
	isShort  bool
}

// estimatorOf returns an estimator whose two sources show these capacities, and whether each was
// short just now.
func estimatorOf(byWaits, byLatency shown) *CapacityEstimator {
	e := &CapacityEstimator{}
	span := contentionSpan{busyNS: msNS, rifTimeNS: byWaits.milliRIF * msNS / 1_000, usedNS: msNS}
	if byWaits.isShort { // half of twice as many
		span.rifTimeNS = byWaits.milliRIF * msNS / 1_000 * 2
		span.waitedNS = msNS
	}
	e.contention.read(span, 0)
	learnUnloaded(e, 4*msNS)
	learnMany(&e.inflation, 2_000, uint32(byLatency.milliRIF/250)-1, 16*msNS)
	e.inflation.read(0, 0, true)
	if !byLatency.isShort {
		learnMany(&e.inflation, 2_000, 1, 4*msNS)
		e.inflation.read(0, 30*secondNS, true)
	}
	return e
}

func TestLatencyCountsBelowHalfOfWaitsOrIfThoseShowNoShortage(t *testing.T) {
	for _, c := range []struct {
		byWaits, byLatency shown
		capacity           uint64
		source             CapacitySource
	}{
		{shown{8_000, true}, shown{4_000, true}, 8_000, SourceWaits},
		{shown{8_001, true}, shown{4_000, true}, 4_000, SourceLatency},
		{shown{8_001, true}, shown{4_000, false}, 8_001, SourceWaits},
		{shown{4_001, false}, shown{4_000, true}, 4_000, SourceLatency},
		{shown{4_000, false}, shown{4_000, true}, 4_000, SourceWaits},
		{shown{9_000, false}, shown{4_000, false}, 9_000, SourceWaits},
	} {
		capacity, source := estimatorOf(c.byWaits, c.byLatency).capacity()
		if capacity/fine != c.capacity || source != c.source {
			t.Errorf("%+v: %d by %v", c, capacity/fine, source)
		}
	}
}

func TestCapacityGrowsIfSeventyPercentIsInUse(t *testing.T) {
	const ten = 10 * oneRIF
	for _, c := range []struct{ inFlight, carried, spanNS, want uint64 }{
		{7*oneRIF - 1, 0, secondNS, ten},
		{7 * oneRIF, 0, secondNS, oneRIF * 112 / 10},
		{7 * oneRIF, 0, secondNS / 10, oneRIF * 1_012 / 100},
		// It takes a quarter of a second to double.
		{0, 15 * oneRIF, secondNS / 4, 15 * oneRIF},
		{0, 40 * oneRIF, secondNS / 8, 15 * oneRIF},
		{0, 40 * oneRIF, secondNS / 4, 20 * oneRIF},
		{0, 90 * oneRIF, 60 * secondNS, 50 * oneRIF},
	} {
		if got := grow(ten, c.inFlight, c.carried, c.spanNS); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := grow(capacityMax, 0, capacityMax, secondNS); got != capacityMax {
		t.Errorf("beyond the maximum: %d", got)
	}
}

func TestCapacityIsFromAHundredthToAMillion(t *testing.T) {
	for _, c := range []struct {
		rifTimeNS, waitedNS uint64
		want                uint32
	}{
		{msNS, 499 * msNS, 10}, {2_000_000 * msNS, msNS, 1_000_000_000}, {3_000_000 * msNS, msNS, 1_000_000_000},
	} {
		var e CapacityEstimator
		e.contention.read(contentionSpan{
			ns: msNS, passedNS: msNS, busyNS: msNS, rifTimeNS: c.rifTimeNS, usedNS: msNS, waitedNS: c.waitedNS,
		}, 0)
		var report policy.LoadReport
		if e.Fill(&report); report.CapacityMilliRIF != policy.Some(c.want) {
			t.Errorf("%+v: %+v", c, report)
		}
	}
}

func TestCoresCarryWhatAQueryTakesAloneOverItsCost(t *testing.T) {
	const unknown = -1
	for _, c := range []struct{ elsewhereMS, unloadedMS, want int }{
		{unknown, unknown, unknown},
		{30, unknown, 8_000},
		{unknown, 16, 3_200},
		{unknown, 4, 2_000}, // no less than its cost
		{30, 16, 3_200},     // the shorter
		{5, 16, 3_000},
	} {
		e := CapacityEstimator{limitMillicores: 2_000, showsWaits: c.elsewhereMS != unknown}
		e.cost.read(100*msNS, int64(max(c.elsewhereMS, 0))*10*int64(msNS), 10)
		if c.unloadedMS != unknown {
			learnUnloaded(&e, uint64(c.unloadedMS)*msNS)
		}
		most, ok := e.most()
		// Roots of latencies round off a little.
		if rounded := int(most/fine+9) / 10 * 10; ok != (c.want != unknown) || ok && rounded != c.want {
			t.Errorf("%+v: %d, %v", c, rounded, ok)
		}
	}
	e := estimatorOf(shown{2_000, true}, shown{2_000, true})
	e.limitMillicores = 2_000
	e.cost.read(40*msNS, 0, 10)
	if capacity, source := e.capacity(); source != SourceCores {
		t.Errorf("%d by %v", capacity, source)
	}
}

func TestCapacityBelowOneCountsByTheTimeOfAQueryAlone(t *testing.T) {
	const half = oneRIF / 2
	for _, c := range []struct{ capacity, unloadedMS, carried, costMS uint64 }{
		{half, 9, half, 16}, // no less than its cost
		{half, 25, half * 25 / 16, 25},
		{half, 36, oneRIF, 32},           // no more than one query
		{2 * oneRIF, 36, 2 * oneRIF, 16}, // latency shows other waits, too
	} {
		var e CapacityEstimator
		learnUnloaded(&e, c.unloadedMS*msNS)
		e.inflation.capacity = policy.Optional[uint64]{}
		e.contention.capacity = policy.Some(c.capacity)
		for range 5 { // then it is accurate
			e.cost.read(160*msNS, 0, 10)
		}
		var report policy.LoadReport
		e.Fill(&report)
		if report.CapacityMilliRIF.Value != uint32(c.carried/fine) || uint64(report.Cost.Value+time.Microsecond)/msNS != c.costMS {
			t.Errorf("%+v: %+v", c, report)
		}
	}
}

func TestLatencyStandsForTheCostUntilCPUTimeIsKnown(t *testing.T) {
	var e CapacityEstimator
	cost := func() policy.Optional[time.Duration] {
		var report policy.LoadReport
		e.Fill(&report)
		return report.Cost
	}
	learnUnloaded(&e, 4*msNS)
	if got := cost(); got != policy.Some(4*time.Millisecond) {
		t.Errorf("%+v", got)
	}
	e.cost.read(10*msNS, 0, 10)
	if got := cost(); got.Known {
		t.Errorf("nothing shows how accurate it is: %+v", got)
	}
	for range 4 {
		e.cost.read(10*msNS, 0, 10)
	}
	if got := cost(); !got.Known || absDiff(uint64(got.Value), msNS) >= 1_000 {
		t.Errorf("%+v", got)
	}
}

func TestQueriesTooShortForTheClockShowNeitherCapacityNorCost(t *testing.T) {
	for _, cost := range []policy.Optional[time.Duration]{{}, policy.Some(200 * time.Microsecond)} {
		var e CapacityEstimator
		tracker := NewTracker(DefaultTrackerConfig())
		finished := uint64(0)
		for reading := range uint64(20) {
			now := policy.Instant(secondNS + reading*50*msNS)
			for range 10 {
				tracker.Finish(now, tracker.Arrive(now), Success)
				finished++
			}
			var cpu policy.Optional[CPUTotals]
			if cost.Known {
				used := time.Duration(finished) * cost.Value
				cpu = policy.Some(CPUTotals{Used: used, LimitMillicores: 8_000})
			}
			e.Read(now, tracker, finished, cpu)
		}
		var report policy.LoadReport
		e.Fill(&report)
		if report.CapacityMilliRIF.Known || report.Cost.Known != cost.Known ||
			report.Cost.Value.Truncate(time.Microsecond) != cost.Value {
			t.Errorf("%+v: %+v", cost, report)
		}
	}
}

func TestQueriesTooShortForTheClockAreNoShortageOfLongerOnes(t *testing.T) {
	var e CapacityEstimator
	learnUnloaded(&e, 0)
	learnMany(&e.inflation, 100, 9, msNS)
	e.inflation.read(0, 0, true)
	if _, source := e.capacity(); source != SourceNone || e.inflation.isRecent() {
		t.Errorf("%+v", e.inflation)
	}
}

func TestShortageIsForgottenWhileQueriesAreTooShortForTheClock(t *testing.T) {
	e := estimatorOf(shown{8_001, true}, shown{4_000, true})
	for range 2 {
		learnMany(&e.inflation, 2_000, 0, 0)
		e.inflation.read(0, 15*secondNS, true)
	}
	if _, known := e.inflation.unloadedNS(); known {
		t.Errorf("%+v", e.inflation)
	}
	if _, source := e.capacity(); source != SourceWaits {
		t.Errorf("%v", source)
	}
}

func TestAReadingUnderAQuotaCoversTwoPeriods(t *testing.T) {
	var e CapacityEstimator
	tracker := NewTracker(DefaultTrackerConfig())
	tracker.Arrive(policy.Instant(secondNS))
	for step := range uint64(9) {
		used := time.Duration(50 * step * msNS)
		e.Read(policy.Instant(secondNS+50*step*msNS), tracker, 0, policy.Some(CPUTotals{
			Used: used, Threads: policy.Some(ThreadTotals{Used: used}), QuotaPeriod: 200 * time.Millisecond,
		}))
		if _, source := e.capacity(); (source != SourceNone) != (step == 8) {
			t.Errorf("step %d: %v", step, source)
		}
	}
}

func TestTornBusyTimeCountsAsTheWholeSpan(t *testing.T) {
	reading := func(at policy.Instant, rifTimeNS, busyNS, usedNS uint64) *capacityReading {
		threads := ThreadTotals{Used: time.Duration(usedNS), Waited: time.Duration(usedNS)}
		return &capacityReading{
			at: at, takenAt: at, rif: 10, rifTimeNS: rifTimeNS, busyNS: busyNS,
			cpu: policy.Some(CPUTotals{Threads: policy.Some(threads)}),
		}
	}
	var e CapacityEstimator
	// A query that begins at the moment of a reading may make busy time step back.
	before, after := reading(0, 0, 5, 0), reading(policy.Instant(50*msNS), 500*msNS, 4, msNS)
	e.readCPU(after.spanSince(before), before, after)
	if e.contention.capacity != policy.Some[uint64](5*oneRIF) {
		t.Errorf("%+v", e.contention)
	}
}

func TestCancelledQueriesCountUpToTheirEnd(t *testing.T) {
	before := &capacityReading{rif: 10}
	after := &capacityReading{at: policy.Instant(msNS), takenAt: policy.Instant(msNS), rifTimeNS: 9 * msNS}
	if span := after.spanSince(before); span.rifTimeNS != 9*msNS {
		t.Errorf("%+v", span)
	}
}

func TestLatenciesFromBeforeTheLastReadingAreLeftOut(t *testing.T) {
	// A goroutine that was delayed may leave a slot of the ring as it was a whole ring ago.
	for endedMS, known := range map[uint64]bool{1_500: true, 900: false} {
		var e CapacityEstimator
		tracker := NewTracker(DefaultTrackerConfig())
		at := func(ms uint64) policy.Instant { return policy.Instant(ms * msNS) }
		e.Read(at(1_000), tracker, 0, policy.Optional[CPUTotals]{})
		for range 100 {
			tracker.Finish(at(endedMS), tracker.Arrive(at(endedMS-4)), Success)
		}
		e.Read(at(2_000), tracker, 100, policy.Optional[CPUTotals]{})
		if cost, ok := e.costNS(); ok != known || known && cost != 4*msNS {
			t.Errorf("%d ms: %d, %v", endedMS, cost, ok)
		}
	}
}

func TestAShortageIsRecentForThirtySeconds(t *testing.T) {
	var s shortage
	if s.isRecent() {
		t.Error("there was none")
	}
	for range 2 { // since the last one
		s.isNow()
		s.wasNotFor(20 * secondNS)
		s.wasNotFor(10*secondNS - 1)
		if !s.isRecent() {
			t.Error("it is forgotten too early")
		}
		s.wasNotFor(1)
		if s.isRecent() {
			t.Error("it is remembered too long")
		}
	}
}

func TestHalfOfWhatIsWantedCanBelongToQueries(t *testing.T) {
	for rifTimeNS, want := range map[uint64]bool{9: false, 10: true} {
		span := contentionSpan{rifTimeNS: rifTimeNS, usedNS: 15, waitedNS: 5}
		if span.isOfQueries() != want {
			t.Errorf("%d", rifTimeNS)
		}
	}
}

func TestNothingIsKnownBefore32Queries(t *testing.T) {
	for queries, known := range map[int]bool{31: false, 32: true} {
		var n inflation
		learnMany(&n, 4, 0, 4*msNS) // before anything is learned
		learnMany(&n, queries, 0, 4*msNS)
		n.read(0, 0, true)
		if _, ok := n.unloadedNS(); ok != known || n.capacity.Known != known {
			t.Errorf("%d: %v, %+v", queries, ok, n.capacity)
		}
	}
}

func TestFewOthersAreHalfOfTheUsualAndNoMoreThanCanBeCarried(t *testing.T) {
	for _, c := range []struct {
		capacity policy.Optional[uint64]
		fewest   uint32 // of others that are not few
	}{
		{policy.Optional[uint64]{}, 4},
		{policy.Some[uint64](3 * oneRIF), 3},
		{policy.Some[uint64](9 * oneRIF), 4},
		{policy.Some[uint64](oneRIF / 2), 1}, // alone is few
	} {
		n := inflation{
			isSettled: true, queries: 1_000, usualRIF: 8 * oneRIF, newestRIF: 8 * oneRIF,
			unloadedRIF: 8 * oneRIF, capacity: c.capacity,
		}
		n.learn(7, 4*msNS)
		n.read(0, 0, true)
		for others := range uint32(8) {
			n.sums = inflationSums{}
			n.learn(others, 4*msNS)
			if isFew := n.sums.few == 1; isFew != (others < c.fewest) {
				t.Errorf("%+v: %d others: %v", c, others, isFew)
			}
		}
	}
}
