package policy

import (
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// silenceMax: a replica that has answered before becomes unprobed only after this long without
	// an answer. Probes may be lost, and a replica whose machine is gone must be detected by that,
	// not preferred because it looks empty.
	silenceMax = 10 * time.Second
	// unreachablePause is how long an unprobed replica that could not be reached is not offered.
	unreachablePause = time.Second
	// unprobedIntervalNS is the interval of real probes to an unprobed replica, to notice that it
	// answers.
	unprobedIntervalNS = uint64(time.Second)
)

// silence is whether a replica is unprobed, and the state of an unprobed one.
type silence struct {
	unprobed bool
	// unprobedAvailable: the replica is unprobed and available.
	unprobedAvailable bool
	// unreachableUntil: the replica is not offered before this time.
	unreachableUntil Instant
	// answeredHereAt is when a probe to it was last answered here.
	answeredHereAt Optional[Instant]
}

// localLoads are the replicas that answer no probes, and what this client measures itself.
//
// A replica that has never answered a probe, or not for silenceMax, is unprobed. Its probes are
// answered here, from a tracker of the client's own queries to it. The client's own RIF is lower
// than the replica's true one by what other clients have in flight there. That part is estimated
// (see otherClients), so unprobed replicas are neither starved nor flooded.
//
// A policy that compares the latest reports of all replicas would find the lowest among the
// reports, since an expected value is never the lowest. There the estimate has the spread of recent
// reports.
//
// A client's own latencies include the way there and back, which those that replicas report do not.
// So the round trip of a probe is taken off.
type localLoads struct {
	silences ReplicaMap[silence]
	// own has a tracker for each unprobed replica.
	own ReplicaMap[*ownTracker]
	// unprobed is the number of unprobed replicas. At 0, queries do not use this file.
	unprobed int
	// unprobedAvailable is how many of them are available.
	unprobedAvailable int
	watches           uint32
	others            otherClients
	// roundTrips are those of recent probes that were answered, in nanoseconds.
	roundTrips recentValues
	// outOfReachUntil: from this time on no unprobed replica is out of reach.
	outOfReachUntil Instant
}

func (l *localLoads) add(replica ReplicaID) {
	l.silences.Set(replica, silence{})
	l.own.Reserve(replica)
}

func (l *localLoads) remove(replica ReplicaID) {
	l.endSilence(replica)
	l.own.Remove(replica)
	l.silences.Remove(replica)
}

func (l *localLoads) isUnprobed(replica ReplicaID) bool {
	if l.unprobed == 0 {
		return false
	}
	s := l.silences.Find(replica)
	return s != nil && s.unprobed
}

// anyOutOfReach reports whether any unprobed replica may be out of reach.
func (l *localLoads) anyOutOfReach(now Instant) bool {
	return l.unprobed > 0 && now < l.outOfReachUntil
}

// isOutOfReach reports whether the replica is unprobed and could recently not be reached, so that
// it is the last to try.
func (l *localLoads) isOutOfReach(now Instant, replica ReplicaID) bool {
	if !l.anyOutOfReach(now) {
		return false
	}
	s := l.silences.Find(replica)
	return s != nil && s.unprobed && now < s.unreachableUntil
}

// beginSilence makes the replica, one of the fleet, count as unprobed. It returns false if the
// replica already did.
func (l *localLoads) beginSilence(replica ReplicaID, fleet *Fleet) bool {
	s := l.silences.Find(replica)
	if s == nil || s.unprobed {
		return false
	}
	s.unprobed = true
	if l.unprobed == 0 {
		l.others.forgetRates()
	}
	l.others.begin()
	l.unprobed++
	l.watches++
	l.own.Set(replica, &ownTracker{watch: l.watches})
	l.settle(replica, fleet)
	return true
}

// endSilence ends a silence: the replica answers, or has left.
func (l *localLoads) endSilence(replica ReplicaID) {
	s := l.silences.Find(replica)
	if s == nil || !s.unprobed {
		return
	}
	s.unprobed = false
	l.unprobed--
	l.others.begin()
	l.own.Remove(replica)
	l.setUnprobedAvailable(s, false)
}

// settle updates the counts after the replica's availability or silence may have changed.
func (l *localLoads) settle(replica ReplicaID, fleet *Fleet) {
	if s := l.silences.Find(replica); s != nil {
		l.setUnprobedAvailable(s, s.unprobed && fleet.IsAvailable(replica))
	}
}

func (l *localLoads) setUnprobedAvailable(s *silence, is bool) {
	l.unprobedAvailable += number(is) - number(s.unprobedAvailable)
	s.unprobedAvailable = is
}

// answered notes that the replica has answered a probe: this client's, after this round trip (own),
// or a sibling's.
func (l *localLoads) answered(replica ReplicaID, roundTripNS uint64, own bool) {
	if own {
		l.roundTrips.record(roundTripNS)
	}
	if l.unprobed > 0 {
		l.endSilence(replica)
	}
	// unreachableUntil need not be reset: it is over before the replica can be unprobed again.
}

// noteOthers takes in a report, with its RIF or a lower one, of which a part is this client's.
func (l *localLoads) noteOthers(report *LoadReport, rif, ownInFlight uint32) {
	l.others.note(rif, ownInFlight)
	if l.unprobed > 0 {
		l.others.noteRate(report)
	}
}

// forgetAnswers forgets what reports showed, since no replica answers any more: the load of other
// clients, and the round trip that sets the pace.
func (l *localLoads) forgetAnswers() {
	l.others = otherClients{}
	l.roundTrips = recentValues{}
}

// lost notes that a probe was lost, the last of these. It returns true if that makes the replica,
// one of the fleet, unprobed.
func (l *localLoads) lost(now Instant, replica ReplicaID, probes lostProbes, fleet *Fleet) bool {
	answeredAt, answered := probes.answeredAt.get()
	if probes.inARow < fleet.loss.lostInARow() || answered && now.Since(answeredAt) < silenceMax {
		return false
	}
	return l.beginSilence(replica, fleet)
}

// querySent notes that a query goes to the replica. It returns the query as the tracker of an
// unprobed replica saw it.
func (l *localLoads) querySent(now Instant, replica ReplicaID) localArrival {
	if l.unprobed == 0 {
		return localArrival{}
	}
	if own := l.own.Find(replica); own != nil {
		return (*own).arrive(now)
	}
	return localArrival{}
}

// queryDone notes that a query to the replica is over.
func (l *localLoads) queryDone(now Instant, ticket *Ticket, outcome Outcome) {
	if outcome == OutcomeNoConnection {
		if s := l.silences.Find(ticket.replica); s != nil {
			s.unreachableUntil = now.Add(unreachablePause)
			l.outOfReachUntil = s.unreachableUntil
		}
	}
	if own := l.current(ticket); own != nil {
		own.finish(now, ticket.local, endOf(outcome))
	} else if l.unprobed > 0 && ticket.local.watch == 0 && outcome.isAnswer() {
		l.others.queryAnswered()
	}
}

// headReady notes the head of a response. A stream after its head does not indicate a stall.
func (l *localLoads) headReady(now Instant, ticket *Ticket, outcome Outcome) {
	if own := l.current(ticket); own != nil {
		own.headReady(now, &ticket.local, endOf(outcome))
	}
}

// current returns the tracker with which a query was sent, if it still lasts.
func (l *localLoads) current(ticket *Ticket) *ownTracker {
	if ticket.local.watch == 0 {
		return nil
	}
	if own := l.own.Find(ticket.replica); own != nil && (*own).watch == ticket.local.watch {
		return *own
	}
	return nil
}

// unanswered says whether an unprobed replica's probe is answered here.
type unanswered uint8

const (
	answeredHere unanswered = iota
	// unansweredOutOfReach: it could recently not be reached.
	unansweredOutOfReach
	// unansweredInterval: it was answered for a moment ago.
	unansweredInterval
)

// withoutWayNS returns the latency of this client's own query as the replica would report it. The
// way is the mean round trip of recent probes, but at most half: a probe's answer may have waited
// to be read.
func (l *localLoads) withoutWayNS(replica ReplicaID, latencyNS uint64) uint64 {
	if !l.isUnprobed(replica) {
		return latencyNS
	}
	return max(ints.Sub(latencyNS, l.roundTrips.mean()), latencyNS/2)
}

// answer answers the probe of an unprobed replica, one of this many available ones, unless it
// returns why not. It uses the client's own measurements and an estimate of what others have in
// flight there, which is spread with a draw unless that is nil.
//
// The pace is that of a replica that answers: not before the interval is over, and not while a
// probe would still be in flight. Local reports cost nothing, and would otherwise displace the
// others from a pool.
func (l *localLoads) answer(
	now Instant, replica ReplicaID, ownInFlight uint32, available int, intervalNS uint64, spread Draw,
	report *LoadReport,
) unanswered {
	s := l.silences.Find(replica)
	if s == nil || now < s.unreachableUntil {
		return unansweredOutOfReach
	}
	paceNS := max(intervalNS, l.roundTrips.mean())
	if last, known := s.answeredHereAt.Get(); known && now.nsSince(last) < paceNS {
		return unansweredInterval
	}
	s.answeredHereAt = Some(now)
	found := l.own.Find(replica)
	if found == nil {
		return unansweredOutOfReach
	}
	own := *found
	l.others.read(now)
	own.recent.read(now, own.sent, own.rifTimeNS(now))
	others := l.others.estimate(&own.recent, ownInFlight, available-l.unprobedAvailable, spread)
	*report = LoadReport{
		RIF:     ints.Add(ownInFlight, others),
		Latency: duration(l.withoutWayNS(replica, own.latencyNS(now))),
	}
	return answeredHere
}
