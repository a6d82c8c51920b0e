package load

import (
	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const (
	// shortBelow: a replica that gets less than this share of the CPU time it wants, in 1/1024, is
	// short of CPU. Some wait is always there: threads are woken on busy cores.
	shortBelow = fine * 93 / 100
	// contentionMemoryNS is the time constant with which a capacity that is too high falls to what is
	// carried: a few of the paper's queries, and short beside the seconds for which neighbours are
	// active.
	contentionMemoryNS = 95_000_000
	// contentionStepMax is the largest step of one reading, in 1/1024 of the distance.
	contentionStepMax = fine * 9 / 10
	// recentNS is how long a shortage vouches for a capacity: longer than neighbours stay away, and
	// short enough to forget a value due to chance.
	recentNS = 30_000_000_000
)

// shortage is the last time that a replica was short of something. By default there was none.
type shortage struct {
	was     bool
	ampleNS uint64
}

func (s *shortage) isNow() { *s = shortage{was: true} }

// wasNotFor notes a span without a shortage in which one would have shown.
func (s *shortage) wasNotFor(spanNS uint64) { s.ampleNS = ints.Add(s.ampleNS, spanNS) }

// isRecent reports whether a shortage was recent. Without one, a capacity is only a guess from
// below.
func (s *shortage) isRecent() bool { return s.was && s.ampleNS < recentNS }

// contention estimates capacity from the CPU time that a replica gets, as a share of what it wants.
// Its threads are ready to run while they run or wait for a CPU. Neighbours, a quota and its own
// load all show in that wait; waiting for anything else does not.
type contention struct {
	capacity policy.Optional[uint64]
	// What was measured and not yet used.
	seen contentionSpan
	shortage
	// The share of the queries' time in which they neither used nor waited for a CPU, in 1/1024.
	elsewhere uint64
}

// contentionSpan is what was measured over a span of time.
type contentionSpan struct {
	ns uint64
	// The time since the last reading, with idle time that the span leaves out.
	passedNS uint64
	// The part of the span with something in flight.
	busyNS uint64
	// Requests in flight, integrated over the span.
	rifTimeNS uint64
	// CPU time that threads used and waited for; 0 if unknown.
	usedNS, waitedNS uint64
}

func (s *contentionSpan) wantedNS() uint64 { return ints.Add(s.usedNS, s.waitedNS) }

// isOfQueries reports whether at least half of the CPU time that was wanted can belong to queries,
// if each wanted one core while it was in flight.
func (s *contentionSpan) isOfQueries() bool { return s.wantedNS() <= ints.Mul(s.rifTimeNS, 2) }

func (s *contentionSpan) add(other contentionSpan) {
	s.ns = ints.Add(s.ns, other.ns)
	s.passedNS = ints.Add(s.passedNS, other.passedNS)
	s.busyNS = ints.Add(s.busyNS, other.busyNS)
	s.rifTimeNS = ints.Add(s.rifTimeNS, other.rifTimeNS)
	s.usedNS = ints.Add(s.usedNS, other.usedNS)
	s.waitedNS = ints.Add(s.waitedNS, other.waitedNS)
}

// read learns from a span, together with earlier ones that were shorter than leastNS. It learns
// nothing while no CPU time is wanted, or nothing is in flight.
func (c *contention) read(span contentionSpan, leastNS uint64) {
	c.seen.add(span)
	if c.seen.ns < leastNS {
		return
	}
	seen := c.seen
	c.seen = contentionSpan{}
	wanted := seen.wantedNS()
	step := min(ints.MulDiv(seen.ns, fine, contentionMemoryNS), contentionStepMax)
	if seen.rifTimeNS > 0 {
		elsewhere := ints.MulDiv(ints.Sub(seen.rifTimeNS, wanted), fine, seen.rifTimeNS)
		c.elsewhere = ints.Towards(c.elsewhere, elsewhere, step, fine)
	}
	// What a server does on its own while nothing is in flight shows nothing about its capacity, and
	// would make it look like none.
	if wanted == 0 || seen.busyNS == 0 {
		return
	}
	got := ints.MulDiv(seen.usedNS, fine, wanted)
	// Queries were in flight only in the busy part of the span.
	meanRIF := ints.MulDiv(seen.rifTimeNS, oneRIF, seen.busyNS)
	carried := ints.MulDiv(meanRIF, got, fine)
	capacity := c.capacity.Value
	if !c.capacity.Known {
		capacity = carried
	}
	if got < shortBelow {
		c.capacity = policy.Some(ints.Towards(capacity, carried, step, fine))
		c.isNow()
		return
	}
	// Queries that waited for something else may have waited in a queue.
	atCPU := min(ints.MulDiv(wanted, oneRIF, seen.busyNS), meanRIF)
	c.capacity = policy.Some(grow(capacity, meanRIF, atCPU, seen.ns))
	c.wasNotFor(seen.passedNS)
}

// waitsElsewhere reports whether queries spend enough time off the CPU that waits there can explain
// why their latency has grown. Otherwise longer queries explain it.
func (c *contention) waitsElsewhere() bool { return c.elsewhere > fine-inflatedBelow }
