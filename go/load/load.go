package load

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Options are the settings of a [Load]. The zero value has the defaults.
type Options struct {
	// Tracker sets how latency is estimated. Default nil: [DefaultTrackerConfig].
	Tracker *TrackerConfig
	// HintScale returns the factor, in 1/1024, by which the reported load is scaled for a query with
	// this hint, so that a replica with the query's data at hand attracts it: 102 looks ten times
	// less loaded, 0 and 1024 are the true load. It runs for each probe with a hint, which is
	// hostile until proven otherwise, and should take microseconds. If it panics, the load is not
	// scaled. Default nil: hints are ignored.
	HintScale func(hint []byte) uint16
	// CPU returns the replica's CPU totals, or false if they are not known now. With them the cost
	// of a query and the CPU in use are measured; otherwise latency stands for the cost. It runs at
	// most once in 50 ms, on a goroutine that makes a report, and should take microseconds. If it
	// panics, its totals count as not known. Use [ProcessCPU] for a process that is one replica.
	// Default nil: CPU is not measured.
	CPU func() (CPUTotals, bool)
	// NoCapacity turns off that capacity and the cost of a query are learned and reported. Policies
	// that use them then fall back to latency and RIF.
	NoCapacity bool
}

// Load is one replica's state, shared by its handlers and its probe responders: usually one for
// each process. It is safe for concurrent use.
type Load struct {
	tracker     *Tracker
	epoch       time.Time
	incarnation uint64
	hintScale   func([]byte) uint16
	draining    atomic.Bool
	counts      [Cancelled + 1]atomic.Uint64

	// Only reports take this lock, never a query.
	mu    sync.Mutex
	rates *Rates

	learned *learned // nil if capacity and cost are not reported
}

// Counts counts how queries ended since the start.
type Counts struct {
	// Succeeded counts queries that were answered in full.
	Succeeded uint64
	// Failed counts queries that were answered with an error, cut short by one, or lost to a panic.
	Failed uint64
	// Cancelled counts queries whose client left before it had the whole answer, and those that were
	// rejected.
	Cancelled uint64
}

// New returns a replica with nothing in flight, a clock that starts now, and a new incarnation.
func New(options Options) *Load {
	config := DefaultTrackerConfig()
	if options.Tracker != nil {
		config = *options.Tracker
	}
	load := &Load{
		tracker:     NewTracker(config),
		epoch:       time.Now(),
		incarnation: newIncarnation(),
		hintScale:   options.HintScale,
		// What was learned of the CPU in use is a share of the whole allocation already.
		rates: NewRates(1_000),
	}
	if !options.NoCapacity {
		load.learned = &learned{cpu: options.CPU}
	}
	return load
}

func newIncarnation() uint64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return binary.NativeEndian.Uint64(random[:])
}

func (l *Load) now() policy.Instant { return policy.Instant(max(time.Since(l.epoch), 0)) }

// Begin counts a query that starts. It is in flight until [Query.End], which must follow.
func (l *Load) Begin() *Query {
	return &Query{load: l, arrival: l.tracker.Arrive(l.now())}
}

// Report returns the replica's report now. A hint that is not empty scales it.
func (l *Load) Report(hint []byte) policy.LoadReport {
	now := l.now()
	report := l.tracker.Report(now)
	// First, since the rates may depend on this reading.
	if l.learned != nil {
		if l.learned.isDue(now, 0) {
			l.learned.read(now, l)
		}
		l.learned.fill(&report)
	}
	l.fillRates(now, &report)
	report.Draining = l.draining.Load()
	report.Incarnation = policy.Some(l.incarnation)
	if l.hintScale != nil && len(hint) > 0 {
		report.LoadScale = l.scale(hint)
	}
	return report
}

// scale recovers from a panic, because one query's hint must not stop the probe responder.
func (l *Load) scale(hint []byte) (scale uint16) {
	defer func() {
		if recover() != nil {
			scale = 0
		}
	}()
	return l.hintScale(hint)
}

// fillRates fills in recent rates. Totals are read at intervals, when a report is made.
func (l *Load) fillRates(now policy.Instant, report *policy.LoadReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rates.Due(now) {
		totals := l.totals()
		if l.learned != nil {
			totals.CPU = l.learned.allocationUsed()
		}
		l.rates.Read(now, totals)
	}
	l.rates.Fill(report)
}

// totals leaves out cancelled queries: they do not show how busy the replica was.
func (l *Load) totals() Totals {
	failed := l.counts[Failed].Load()
	return Totals{Finished: l.counts[Success].Load() + failed, Failed: failed}
}

// RIF returns the requests in flight.
func (l *Load) RIF() uint32 { return l.tracker.RIF() }

// Drain makes reports ask clients to send no new queries. Queries that still arrive are served.
// Call it some probe intervals before the listener closes.
func (l *Load) Drain() { l.draining.Store(true) }

// Undrain ends what [Load.Drain] began.
func (l *Load) Undrain() { l.draining.Store(false) }

// Draining reports whether the replica is draining.
func (l *Load) Draining() bool { return l.draining.Load() }

// Counts returns how queries ended so far.
func (l *Load) Counts() Counts {
	return Counts{
		Succeeded: l.counts[Success].Load(),
		Failed:    l.counts[Failed].Load(),
		Cancelled: l.counts[Cancelled].Load(),
	}
}

// CapacitySource says where the capacity comes from that is reported now.
func (l *Load) CapacitySource() CapacitySource {
	if l.learned == nil {
		return SourceNone
	}
	return CapacitySource(l.learned.source.Load())
}

// carried returns the load to send with a response: RIF, capacity and cost. It takes no lock.
// Readings are left to probes, unless one was due a whole step before at: then no probes come.
func (l *Load) carried(at policy.Instant) policy.LoadReport {
	report := policy.LoadReport{RIF: l.tracker.RIF()}
	if l.learned != nil {
		if l.learned.isDue(at, CapacityStep) {
			l.learned.read(l.now(), l)
		}
		l.learned.fill(&report)
	}
	return report
}
