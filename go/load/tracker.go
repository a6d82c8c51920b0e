package load

import (
	"sync/atomic"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// TrackerConfig are the settings of a [Tracker]. [DefaultTrackerConfig] returns the defaults; a
// field that is 0 means 0.
type TrackerConfig struct {
	// SampleWindow: queries that ended up to this long ago make up the estimate alone if there are
	// enough of them. Default 20 ms. At 0 only those of this very instant count.
	SampleWindow time.Duration
	// WindowSamplesMin is how many queries within the window are enough. Default 5. At 0, as at 1, a
	// single one is enough.
	WindowSamplesMin int
	// RememberedSamplesMax: if the window has fewer, this many of the newest queries are used, up to
	// an age of SampleAgeMax. Default 16. At 0 the latency is unknown then.
	RememberedSamplesMax int
	// SampleAgeMax is the age at which a sample is no longer used. A replica that gets no queries
	// becomes unknown, so that it is tried again. Default 3 s. At 0 the latency is always unknown.
	SampleAgeMax time.Duration
	// SampleCapacity is how many of the newest latencies are kept: 2 to 4,096, default 256. A busier
	// replica bases its estimate on fewer milliseconds.
	SampleCapacity int
}

// DefaultTrackerConfig returns the defaults.
func DefaultTrackerConfig() TrackerConfig {
	return TrackerConfig{
		SampleWindow:         20 * time.Millisecond,
		WindowSamplesMin:     5,
		RememberedSamplesMax: 16,
		SampleAgeMax:         3 * time.Second,
		SampleCapacity:       256,
	}
}

// Outcome is how a query ended, as the replica sees it.
type Outcome uint8

// The outcomes.
const (
	// Success: it was answered. Its latency is a sample.
	Success Outcome = iota
	// Failed: it was answered with an error, or the application panicked. That is no sample, but a
	// sign of life.
	Failed
	// Cancelled: the client gave it up before it had an answer, or the replica rejected it
	// unstarted. That is neither a sample nor a sign of life.
	Cancelled
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Failed:
		return "failed"
	}
	return "cancelled"
}

// Arrival is a query in flight. [Tracker.Finish] of the same tracker takes it back.
type Arrival struct {
	at policy.Instant
	// The other queries in flight: the tag that predicts what the next one meets.
	others    uint32
	headReady bool
}

// At returns when the query arrived.
func (a *Arrival) At() policy.Instant { return a.at }

// Tracker counts a replica's queries and estimates its latency. It reads no clock. It is safe for
// concurrent use and takes no lock.
type Tracker struct {
	rif atomic.Uint32
	// Queries whose response's head is not ready yet.
	waiting atomic.Uint32
	// Ends of queries minus their beginnings, wrapping: the source of RIFTime.
	spentNS atomic.Uint64
	// How long queries that have ended were in flight, summed, wrapping. Each counts with at most
	// longNS.
	endedNS atomic.Uint64
	// Ends of busy times minus their beginnings, wrapping: the source of BusyTime.
	busyNS atomic.Uint64
	// When a query was last answered, or the replica last began to wait for one.
	progressAtNS atomic.Uint64
	// How long a query had seen no progress when its client gave it up, 0 once a query succeeds, and
	// when that was measured.
	stalledNS, stalledAtNS atomic.Uint64

	samples  samples
	ageMaxNS uint64
}

// NewTracker returns a tracker with nothing in flight and nothing known. Settings out of range are
// clamped.
func NewTracker(config TrackerConfig) *Tracker {
	tracker := &Tracker{ageMaxNS: spanNS(config.SampleAgeMax)}
	tracker.samples.init(&config)
	return tracker
}

// Arrive notes that the application receives a query.
func (t *Tracker) Arrive(now policy.Instant) Arrival {
	others := t.rif.Add(1) - 1
	t.spentNS.Add(-uint64(now))
	if others == 0 {
		t.busyNS.Add(-uint64(now))
	}
	if t.waiting.Load() == 0 {
		// An idle replica makes no progress but is not stalled. This comes before the query counts
		// as waiting: a probe in between would take the pause for a stall.
		storeMax(&t.progressAtNS, uint64(now))
	}
	t.waiting.Add(1)
	return Arrival{at: now, others: others}
}

// Head notes that the response's head is ready. Latency ends here, though the query stays in flight
// to the last byte. Only the first call counts.
func (t *Tracker) Head(now policy.Instant, arrival *Arrival, outcome Outcome) {
	if !arrival.headReady {
		arrival.headReady = true
		t.answered(now, arrival, outcome)
	}
}

// Finish notes that the application has returned the response, or that the query is over for
// another reason. It is called once for each arrival.
func (t *Tracker) Finish(now policy.Instant, arrival Arrival, outcome Outcome) {
	if !arrival.headReady {
		t.answered(now, &arrival, outcome)
	}
	t.leave(now, arrival.at)
}

// Withdraw removes a query that never reached the replica, which only its client knows. It is
// neither a sample, nor a sign of life, nor a sign of a stop. It is for a tracker that a client
// keeps of its own queries.
func (t *Tracker) Withdraw(arrival Arrival) {
	if !arrival.headReady {
		t.waiting.Add(^uint32(0))
	}
	t.leave(arrival.at, arrival.at)
}

// leave notes that a query which arrived then is no longer in flight.
func (t *Tracker) leave(now, arrived policy.Instant) {
	t.endedNS.Add(min(nsSince(now, arrived), longNS))
	t.spentNS.Add(uint64(now))
	if t.rif.Add(^uint32(0)) == 0 {
		t.busyNS.Add(uint64(now))
	}
}

// RIF returns the requests in flight.
func (t *Tracker) RIF() uint32 { return t.rif.Load() }

// RIFTime returns the requests in flight, integrated over time until now, in nanoseconds. The
// difference of two values over the time between them is the mean RIF. If queries come or go at
// this very moment, it may be off by now for each, wrapping.
func (t *Tracker) RIFTime(now policy.Instant) uint64 {
	untilNow := uint64(t.rif.Load()) * uint64(now)
	return t.spentNS.Load() + untilNow
}

// BusyTime returns the time with something in flight until now, in nanoseconds. The difference of
// two values over the time between them is the share in which the replica was not idle. If a query
// makes the replica busy or idle at this very moment, the value may be off by anything, wrapping.
func (t *Tracker) BusyTime(now policy.Instant) uint64 {
	var untilNow uint64
	if t.rif.Load() > 0 {
		untilNow = uint64(now)
	}
	return t.busyNS.Load() + untilNow
}

func (t *Tracker) answered(now policy.Instant, arrival *Arrival, outcome Outcome) {
	switch outcome {
	case Success:
		// A clock that has stepped back has measured nothing.
		if now >= arrival.at {
			t.samples.record(now, arrival.others, nsSince(now, arrival.at))
		}
		storeMax(&t.progressAtNS, uint64(now))
		t.stalledNS.Store(0)
	case Failed:
		storeMax(&t.progressAtNS, uint64(now))
	default:
		// A query that was given up takes at least this long. Without this, a stopped replica would
		// look fast again as soon as its clients' deadlines have emptied it.
		stalledNS := min(t.withoutProgressNS(now), nsSince(now, arrival.at))
		if t.recentlyStalled(now) {
			storeMax(&t.stalledNS, stalledNS)
		} else {
			t.stalledNS.Store(stalledNS)
		}
		t.stalledAtNS.Store(uint64(now))
	}
	// Last, so that a reader that sees the next query waiting also sees this one's progress.
	t.waiting.Add(^uint32(0))
}

// Report returns the answer to a probe: RIF, and the median of recent latencies at or near it.
func (t *Tracker) Report(now policy.Instant) policy.LoadReport {
	rif := t.rif.Load()
	floorNS := t.stallFloorNS(now)
	report := policy.LoadReport{RIF: rif}
	if medianNS, ok := t.samples.medianNear(now, rif); ok {
		report.Latency = duration(max(medianNS, floorNS))
	} else if t.outlastsTheUsual(now, rif, floorNS) {
		report.Latency = duration(floorNS)
	}
	return report
}

// outlastsTheUsual reports whether a lower bound without any sample is more informative than an
// unknown latency.
func (t *Tracker) outlastsTheUsual(now policy.Instant, rif uint32, floorNS uint64) bool {
	if t.ageMaxNS == 0 {
		return false
	}
	if usualNS, ok := t.samples.lastKnown(now, rif); ok {
		// Too old for an estimate, but a wait longer than that is a problem of the replica and not
		// of the query.
		return floorNS > usualNS
	}
	// A new replica: a query that has just started would make it look fast, and a long one slow.
	return floorNS >= t.ageMaxNS
}

// stallFloorNS returns a lower bound of the estimate while the replica seems to have stopped, and 0
// if it does not.
func (t *Tracker) stallFloorNS(now policy.Instant) uint64 {
	var currentNS, pastNS uint64
	if t.waiting.Load() > 0 {
		currentNS = t.withoutProgressNS(now)
	}
	if t.recentlyStalled(now) {
		pastNS = t.stalledNS.Load()
	}
	return max(currentNS, pastNS)
}

// recentlyStalled reports whether the last query that was given up still counts.
func (t *Tracker) recentlyStalled(now policy.Instant) bool {
	return ints.Sub(uint64(now), t.stalledAtNS.Load()) < t.ageMaxNS
}

func (t *Tracker) withoutProgressNS(now policy.Instant) uint64 {
	return ints.Sub(uint64(now), t.progressAtNS.Load())
}

// storeMax raises a number to at least value.
func storeMax(number *atomic.Uint64, value uint64) {
	for {
		held := number.Load()
		if held >= value || number.CompareAndSwap(held, value) {
			return
		}
	}
}
