package policy

import (
	"math"
	"slices"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// batchesMax is the most batches of probes that wait to be sent. A caller that polls after each
// pick has one.
const batchesMax = 64

// probeSlot is a slot for a probe in flight.
type probeSlot struct {
	// serial distinguishes a late answer to the former probe of the slot from one to the current
	// probe.
	serial      uint32
	outstanding bool
	replica     ReplicaID
	sentAt      Instant
}

// answer is an answer to a probe.
type answer struct {
	replica     ReplicaID
	roundTripNS uint64
	// own is false if the probe was a sibling's, without a round trip.
	own bool
	// lost is the number of probes that the replica lost in a row before.
	lost uint8
	// standing is the state of the replica; nil if it has left.
	standing *standing
}

// skipped is why a probe that was due is not sent.
type skipped uint8

const (
	skippedNot skipped = iota
	// skippedUnknown: the replica has left.
	skippedUnknown
	// skippedOutstanding: a probe to the same replica is in flight.
	skippedOutstanding
	// skippedInterval: the replica was probed a moment ago.
	skippedInterval
	// skippedCap: too many probes are in flight.
	skippedCap
	// skippedRate: too many probes were sent recently.
	skippedRate
)

// probing has the probes that are due, their targets, and the probes in flight.
//
// A pick only counts how many probes it triggers. Targets are drawn when the caller polls for
// probes, off the query's path. Each probe sent ends once: answered, or lost.
type probing struct {
	// batches has how many probes each waiting batch has, oldest first. The targets of one batch are
	// distinct.
	batches []uint32
	// targets are those drawn for the current batch; the last one is next.
	targets []ReplicaID
	slots   []probeSlot
	free    []uint32
	// idleAt is when idle probes are due.
	idleAt maybeInstant
	// idleSpanNS is how long without a probe counts as idle, this time.
	idleSpanNS uint64
	// deadlineNS is how long a probe has from when it is sent.
	deadlineNS uint64
	// nextDeadline: no probe in flight has an earlier deadline. It is checked before a search. The
	// end of time if none has one.
	nextDeadline Instant
	rateCap      rateCap
	backOff      backOff
}

func newProbing(settings *PrequalSettings) probing {
	slots := int(settings.ProbesOutstandingMax)
	free := make([]uint32, slots)
	for i := range free {
		free[i] = uint32(slots - 1 - i)
	}
	return probing{
		batches:      make([]uint32, 0, batchesMax),
		targets:      make([]ReplicaID, 0, 16),
		slots:        make([]probeSlot, slots),
		free:         free,
		idleSpanNS:   spanNS(settings.ProbeIdleMax),
		deadlineNS:   spanNS(settings.ProbeDeadline),
		nextDeadline: end,
		rateCap:      newRateCap(settings.ProbesPerSecondMax),
		backOff:      newBackOff(settings),
	}
}

// remove removes a replica. Its probes stay in flight until they end, without effect.
func (p *probing) remove(replica ReplicaID) {
	p.targets = slices.DeleteFunc(p.targets, func(target ReplicaID) bool { return target == replica })
}

// want adds a batch of this many probes. It returns false if too many batches wait already.
func (p *probing) want(count uint32) bool {
	if count == 0 {
		return true
	}
	if len(p.batches) == batchesMax {
		p.backOff.window.starved += uint64(count)
		return false
	}
	p.batches = append(p.batches, count)
	return true
}

// nextTarget returns the next replica to probe, drawn uniformly without replacement within its
// batch.
func (p *probing) nextTarget(probeSet []ReplicaID, draw Draw) (ReplicaID, bool) {
	for len(p.targets) == 0 {
		if len(p.batches) == 0 {
			return 0, false
		}
		count := p.batches[0]
		p.batches = slices.Delete(p.batches, 0, 1)
		p.targets = drawDistinct(count, probeSet, draw, p.targets)
	}
	last := len(p.targets) - 1
	replica := p.targets[last]
	p.targets = p.targets[:last]
	return replica, true
}

// send returns the probe to send to the replica, or why none is sent.
func (p *probing) send(now Instant, replica ReplicaID, fleet *Fleet, intervalNS uint64) (Probe, skipped) {
	s := fleet.standings.Find(replica)
	if s == nil {
		return Probe{}, skippedUnknown
	}
	last := &s.lastProbe
	if last.outstanding {
		return Probe{}, skippedOutstanding
	}
	if sentAt, known := last.sentAt.get(); known && now.nsSince(sentAt) < intervalNS {
		return Probe{}, skippedInterval
	}
	if len(p.free) == 0 {
		p.backOff.window.starved++
		return Probe{}, skippedCap
	}
	// The rate cap comes last, so that a probe that is skipped for another reason costs no token.
	if !p.rateCap.take(now) {
		return Probe{}, skippedRate
	}
	index := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.backOff.window.sent++
	last.sentAt = maybe(now)
	last.outstanding = true
	s.outSinceProbe = s.inFlight
	deadline := now.plus(p.deadlineNS)
	// Expiry only searches the slots when the earliest deadline has passed.
	p.nextDeadline = min(p.nextDeadline, deadline)
	slot := &p.slots[index]
	slot.outstanding, slot.replica, slot.sentAt = true, replica, now
	return Probe{ID: newProbeID(index, slot.serial), Replica: replica, Deadline: deadline}, skippedNot
}

// find returns the slot of a probe in flight, or nil.
func (p *probing) find(id ProbeID) *probeSlot {
	if id.slot() >= len(p.slots) {
		return nil
	}
	slot := &p.slots[id.slot()]
	if !slot.outstanding || slot.serial != id.serial() {
		return nil
	}
	return slot
}

// end ends a probe. It returns the replica that it went to, or false if it has ended already.
func (p *probing) end(id ProbeID, fleet *Fleet) (ReplicaID, bool) {
	slot := p.find(id)
	if slot == nil {
		return 0, false
	}
	p.freeSlot(id.slot())
	if s := fleet.standings.Find(slot.replica); s != nil {
		s.lastProbe.outstanding = false
	}
	return slot.replica, true
}

// endAnswered ends a probe like end, and updates the back-off: the probe was answered.
func (p *probing) endAnswered(now Instant, id ProbeID, fleet *Fleet) (answer, bool) {
	slot := p.find(id)
	if slot == nil {
		return answer{}, false
	}
	p.freeSlot(id.slot())
	from := answer{replica: slot.replica, roundTripNS: now.nsSince(slot.sentAt), own: true}
	if s := fleet.standings.Find(slot.replica); s != nil {
		s.lastProbe.outstanding = false
		p.backOff.answered(&s.lastProbe.ends, from.roundTripNS)
		from.lost = s.lastProbe.answered(now)
		from.standing = s
	}
	return from, true
}

func (p *probing) freeSlot(index int) {
	slot := &p.slots[index]
	slot.outstanding = false
	slot.serial++
	p.free = append(p.free, uint32(index))
}

// expire ends each probe whose deadline has passed, and adds its replica to lost.
func (p *probing) expire(now Instant, fleet *Fleet, lost []ReplicaID) []ReplicaID {
	p.nextDeadline = end
	for index := range p.slots {
		slot := &p.slots[index]
		if !slot.outstanding {
			continue
		}
		if deadline := slot.sentAt.plus(p.deadlineNS); deadline > now {
			p.nextDeadline = min(p.nextDeadline, deadline)
			continue
		}
		if replica, ended := p.end(newProbeID(uint32(index), slot.serial), fleet); ended {
			lost = append(lost, replica)
		}
	}
	return lost
}

// unsend undoes a probe that was not sent. It returns true if the probe was in flight.
func (p *probing) unsend(id ProbeID, fleet *Fleet) bool {
	replica, ended := p.end(id, fleet)
	if !ended {
		return false
	}
	if s := fleet.standings.Find(replica); s != nil {
		s.lastProbe.sentAt = 0
	}
	p.rateCap.giveBack()
	p.backOff.window.unsent++
	return true
}

// rest restarts the idle span. At the end of time no span follows, or it would be over at once,
// again and again.
func (p *probing) rest(now Instant) { p.idleAt = maybe(now.plus(p.idleSpanNS)) }

// beginRest makes idle probes due at once if no idle span has started.
func (p *probing) beginRest(now Instant) {
	if p.idleAt == 0 {
		p.idleAt = maybe(now)
	}
}

// jitter draws a new length for the idle span, between three quarters of the longest and all of it,
// so that idle clients do not probe in step.
func (p *probing) jitter(idleMax time.Duration, draw Draw) {
	maxUS := uint32(min(idleMax.Microseconds(), math.MaxUint32))
	earlyUS := Below(draw, maxUS/4+1)
	p.idleSpanNS = uint64(maxUS-earlyUS) * 1_000
}

func (p *probing) isIdle(now Instant) bool {
	idleAt, known := p.idleAt.get()
	return known && idleAt <= now
}

// nextTimeout returns when something is due next.
func (p *probing) nextTimeout() (Instant, bool) {
	// An idle time that is absent is the end of time.
	idleAt, _ := p.idleAt.get()
	at := min(p.nextDeadline, idleAt)
	return at, at < end
}

// drawDistinct draws this many distinct members, or all if there are no more, and adds them. Every
// order of every set is equally likely, by Robert Floyd's algorithm for sequences: as many draws as
// members, and no table of the set's size.
//
// The order matters when a cap on probes binds, so that not all of them are sent. If the newest
// member always came last, the last replica of the table would be probed three times as often as
// the others.
func drawDistinct(count uint32, from []ReplicaID, draw Draw, into []ReplicaID) []ReplicaID {
	members := uint32(len(from))
	for newest := ints.Sub(members, count); newest < members; newest++ {
		candidate := from[Below(draw, newest+1)]
		if at := slices.Index(into, candidate); at >= 0 {
			into = slices.Insert(into, at, from[newest])
		} else {
			into = append(into, candidate)
		}
	}
	return into
}
