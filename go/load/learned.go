package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// learned is the capacity and the cost that have been learned, and what learns them: an estimator
// takes a reading on the goroutine that makes a report, when one is due. Results are stored beside
// it, so that a report takes no lock.
type learned struct {
	cpu func() (CPUTotals, bool)

	// Reports try this lock when a reading is due. The first one gets it; the others go on without
	// a reading.
	mu         sync.Mutex
	estimator  CapacityEstimator
	allocation allocationUse

	dueAtNS atomic.Uint64
	// 0 is unknown in all of these.
	capacityMilliRIF atomic.Uint32
	costPlusOne      atomic.Uint64
	source           atomic.Uint32
	usedPlusOne      atomic.Uint64 // as in allocationUse
}

// allocationUse is the CPU time used in units of the whole allocation: with a limit of two cores, a
// second of CPU time counts as half a second. So its rate is the share in use, even if the limit
// changes.
type allocationUse struct {
	hasRead bool
	cpuUsed time.Duration
	sumNS   uint64
}

// read returns the sum after this reading; it reports false if CPU time or limit is unknown.
func (a *allocationUse) read(cpu policy.Optional[CPUTotals]) (uint64, bool) {
	if !cpu.Known || cpu.Value.LimitMillicores == 0 {
		return 0, false
	}
	before := a.cpuUsed
	if !a.hasRead {
		before = cpu.Value.Used
	}
	a.hasRead, a.cpuUsed = true, cpu.Value.Used
	used := ints.MulDiv(spanBetween(before, cpu.Value.Used), 1_000, uint64(cpu.Value.LimitMillicores))
	a.sumNS = ints.Add(a.sumNS, used)
	return a.sumNS, true
}

// isDue reports whether a reading has been due for overdue or longer.
func (l *learned) isDue(now policy.Instant, overdue time.Duration) bool {
	return uint64(now) >= ints.Add(l.dueAtNS.Load(), spanNS(overdue))
}

// read takes a reading if one is due and no other goroutine is taking it.
func (l *learned) read(now policy.Instant, load *Load) {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	// Another goroutine may have taken the reading since the time was checked.
	if l.estimator.Due(now) {
		l.dueAtNS.Store(ints.Add(uint64(now), uint64(CapacityStep)))
	}
	if !l.estimator.Look(now, load.tracker).Reads {
		return
	}
	cpu := l.readCPU()
	l.estimator.Read(now, load.tracker, load.totals().Finished, cpu)
	var report policy.LoadReport
	l.source.Store(uint32(l.estimator.Fill(&report)))
	l.capacityMilliRIF.Store(report.CapacityMilliRIF.Value)
	l.costPlusOne.Store(plusOne(uint64(report.Cost.Value), report.Cost.Known))
	l.usedPlusOne.Store(plusOne(l.allocation.read(cpu)))
}

// readCPU recovers from a panic, because the caller's function must not stop the probe responder.
func (l *learned) readCPU() (totals policy.Optional[CPUTotals]) {
	if l.cpu == nil {
		return totals
	}
	defer func() {
		if recover() != nil {
			totals = policy.Optional[CPUTotals]{}
		}
	}()
	cpu, ok := l.cpu()
	return policy.Optional[CPUTotals]{Value: cpu, Known: ok}
}

// fill fills in what is known; unknown values are absent.
func (l *learned) fill(report *policy.LoadReport) {
	capacity := l.capacityMilliRIF.Load()
	report.CapacityMilliRIF = policy.Optional[uint32]{Value: capacity, Known: capacity > 0}
	if cost := l.costPlusOne.Load(); cost > 0 {
		report.Cost = policy.Some(duration(cost - 1))
	}
}

// allocationUsed returns the part of the allocation that was used since the first reading, if it is
// known now.
func (l *learned) allocationUsed() (used policy.Optional[time.Duration]) {
	if sum := l.usedPlusOne.Load(); sum > 0 {
		used = policy.Some(duration(sum - 1))
	}
	return used
}

// plusOne encodes a number that may be unknown.
func plusOne(number uint64, known bool) uint64 {
	if !known {
		return 0
	}
	return ints.Add(number, 1)
}
