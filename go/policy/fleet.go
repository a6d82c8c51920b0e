package policy

import (
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// lostAfter is the shortest time without an answer before a replica is lost; pauses of a replica
// are normally shorter.
const lostAfter = 500 * time.Millisecond

// Fleet is the replicas of a policy (which it may probe), and the available ones among them.
//
// A replica that answered probes and stops while others still answer is lost (operators see it as
// unreachable): it is gone, or hangs, and is not chosen until it answers again. If no replica
// answers any longer, the probes are broken and no replica is lost. A lost replica never leaves the
// client without a choice.
type Fleet struct {
	known     ReplicaSet
	available ReplicaSet
	// standings has every known replica. One table answers all questions about a replica: with many
	// replicas each lookup in a table is a cache miss, for each report.
	standings ReplicaMap[standing]
	// present is how many could be chosen if lost ones never could.
	present int
	// lost is the number of lost replicas.
	lost int
	// lastAnswerAt is when any replica last answered a probe.
	lastAnswerAt maybeInstant
	// brokenAt is when all probes were last found broken. Answers from before make no replica lost
	// again.
	brokenAt Instant
	// loss is how many probes are lost although their replica lives.
	loss probeLoss
	// sent is the number of queries that this client has sent, plus turns that passed.
	sent uint64
	// version counts changes of the replicas to choose from.
	version uint64
}

// standing is the state of one replica.
type standing struct {
	// inFlight is the number of queries of this client in flight there.
	inFlight uint32
	// outSinceProbe is the number of queries in flight when its last probe was sent, minus all that
	// have ended since. It is the fewest requests in flight that the replica can have had when it
	// answered.
	outSinceProbe uint32
	turns         turns
	// lastProbe is for policies with asynchronous probes.
	lastProbe lastProbe
	// ejected: the caller took it out of the choice.
	ejected bool
	// draining: its own report took it out.
	draining bool
	// lost: it has stopped answering probes while others answer.
	lost bool
}

// isFit reports whether neither the caller nor the replica has taken it out.
func (s *standing) isFit() bool { return !s.ejected && !s.draining }

// isPresent reports whether it is fit and not lost.
func (s *standing) isPresent() bool { return s.isFit() && !s.lost }

// changed says whether availability has changed.
type changed uint8

const (
	changedNone changed = iota
	// changedItself: only for the replica in question.
	changedItself
	// changedOthers: for other replicas that were or are lost, too.
	changedOthers
)

func (f *Fleet) add(replica ReplicaID) bool {
	if !f.known.Insert(replica) {
		return false
	}
	f.version++
	f.available.Insert(replica)
	f.standings.Set(replica, standing{turns: turnsSince(f.sent)})
	f.present++
	if f.present == 1 && f.lost > 0 {
		f.settleAll()
	}
	return true
}

func (f *Fleet) remove(replica ReplicaID) bool {
	// Its state must no longer count for anything.
	f.change(replica, func(s *standing) { *s = standing{ejected: true} })
	f.standings.Remove(replica)
	f.version++
	return f.known.Remove(replica)
}

// setEjected sets whether the caller takes it out of the choice.
func (f *Fleet) setEjected(replica ReplicaID, ejected bool) changed {
	return f.change(replica, func(s *standing) { s.ejected = ejected })
}

// setDraining sets whether the replica reports that it drains.
func (f *Fleet) setDraining(replica ReplicaID, draining bool) changed {
	return f.change(replica, func(s *standing) { s.draining = draining })
}

// answered notes that the replica has answered a probe, so it is not lost. It lost this many probes
// in a row before. The probe was this client's (own), or a sibling's.
func (f *Fleet) answered(now Instant, replica ReplicaID, lost uint8, own bool) changed {
	f.lastAnswerAt = maybe(now)
	f.loss.answered(lost, own)
	if f.lost == 0 {
		return changedNone
	}
	return f.change(replica, func(s *standing) { s.lost = false })
}

// anyAnsweredSince reports whether any replica has answered a probe since then.
func (f *Fleet) anyAnsweredSince(since Instant) bool {
	at, known := f.lastAnswerAt.get()
	return known && at >= since
}

// probeLost notes a lost probe of the replica, the last of these.
func (f *Fleet) probeLost(now Instant, replica ReplicaID, probes lostProbes) changed {
	answeredAt, answered := probes.answeredAt.get()
	if probes.inARow < f.loss.lostInARow() || !answered || now.Since(answeredAt) < lostAfter {
		return changedNone
	}
	// The replica's own last answer came before that.
	if f.anyAnsweredSince(max(probes.since, f.brokenAt)) {
		return f.change(replica, func(s *standing) { s.lost = true })
	}
	if f.lost == 0 {
		return changedNone
	}
	for _, replica := range f.known.Members() {
		if s := f.standings.Find(replica); s != nil && s.lost {
			s.lost = false
			f.present += number(s.isFit())
		}
	}
	f.lost = 0
	f.brokenAt = now
	f.settleAll()
	return changedOthers
}

func (f *Fleet) change(replica ReplicaID, set func(*standing)) changed {
	s := f.standings.Find(replica)
	if s == nil {
		return changedNone
	}
	wasPresent, wasLost, noneBefore := s.isPresent(), s.lost, f.present == 0
	set(s)
	f.present += number(s.isPresent()) - number(wasPresent)
	f.lost += number(s.lost) - number(wasLost)
	isChanged := f.settle(replica)
	if f.lost > 0 && noneBefore != (f.present == 0) {
		f.settleAll()
		return changedOthers
	}
	if isChanged {
		return changedItself
	}
	return changedNone
}

// settle updates the availability of a replica. It returns whether that changed.
func (f *Fleet) settle(replica ReplicaID) bool {
	if !f.IsAvailable(replica) {
		leaves := f.available.Remove(replica)
		f.version += uint64(number(leaves))
		return leaves
	}
	comesBack := f.available.Insert(replica)
	if s := f.standings.Find(replica); comesBack && s != nil {
		s.turns = turnsSince(f.sent)
	}
	f.version += uint64(number(comesBack))
	return comesBack
}

func (f *Fleet) settleAll() {
	for _, replica := range f.known.Members() {
		f.settle(replica)
	}
}

// Known returns all known replicas. The slice is valid until the fleet changes.
func (f *Fleet) Known() []ReplicaID { return f.known.Members() }

// Available returns the available replicas; none in a panic. The slice is valid until the fleet
// changes.
func (f *Fleet) Available() []ReplicaID { return f.available.Members() }

// IsAvailable reports whether a replica is available: it is known, the caller has not taken it out,
// it does not report that it drains, and it has not stopped answering probes while others go on. In
// a panic, that is false for all.
func (f *Fleet) IsAvailable(replica ReplicaID) bool {
	s := f.standings.Find(replica)
	return s != nil && f.mayBeChosen(s)
}

// Knows reports whether a replica is known.
func (f *Fleet) Knows(replica ReplicaID) bool { return f.standings.Find(replica) != nil }

// IsChoosable reports whether a replica is one of those to choose from: the available ones, or all
// known ones if none is available.
func (f *Fleet) IsChoosable(replica ReplicaID) bool {
	return f.IsAvailable(replica) || f.InPanic() && f.Knows(replica)
}

// Version returns a number that changes with the replicas to choose from.
func (f *Fleet) Version() uint64 { return f.version }

// mayBeChosen reports whether a replica in this state is available.
func (f *Fleet) mayBeChosen(s *standing) bool {
	return s.isPresent() || f.present == 0 && s.isFit()
}

// InPanic reports whether no replica is available, though some are known.
func (f *Fleet) InPanic() bool { return f.available.Len() == 0 && f.known.Len() > 0 }

// InFlight returns the number of queries that this client has in flight at a replica.
func (f *Fleet) InFlight(replica ReplicaID) uint32 {
	if s := f.standings.Find(replica); s != nil {
		return s.inFlight
	}
	return 0
}

// sentTo returns the queries that this client has in flight there, and its turns.
func (f *Fleet) sentTo(replica ReplicaID) (uint32, turn) {
	s := f.standings.Find(replica)
	if s == nil {
		return 0, turn{}
	}
	return s.inFlight, s.turns.now(f.sent, f.available.Len())
}

// passTurn passes the turn of a replica that the query must avoid.
func (f *Fleet) passTurn(query *Query, replica ReplicaID) {
	if !query.Allows(replica) {
		f.takeTurn(replica)
	}
}

func (f *Fleet) querySent(replica ReplicaID) {
	if s := f.takeTurn(replica); s != nil {
		s.inFlight = ints.Add(s.inFlight, 1)
	}
}

func (f *Fleet) takeTurn(replica ReplicaID) *standing {
	f.sent++
	s := f.standings.Find(replica)
	if s != nil {
		s.turns.take(f.sent, f.available.Len())
	}
	return s
}

func (f *Fleet) queryDone(replica ReplicaID) {
	if s := f.standings.Find(replica); s != nil {
		s.inFlight = ints.Sub(s.inFlight, 1)
		// Each query that ends may be older than the probe. All are assumed to be, so that no honest
		// report is corrected.
		s.outSinceProbe = ints.Sub(s.outSinceProbe, 1)
	}
}

// views returns every known replica, as seen from outside. isUnprobed returns whether a replica
// answers no probes.
func (f *Fleet) views(isUnprobed func(ReplicaID) bool) []ReplicaView {
	views := make([]ReplicaView, 0, f.known.Len())
	for _, replica := range f.known.Members() {
		s := f.standings.Find(replica)
		if s == nil {
			continue
		}
		views = append(views, ReplicaView{
			Replica:   replica,
			Available: f.mayBeChosen(s),
			Draining:  s.draining,
			InFlight:  s.inFlight,
			Unprobed:  isUnprobed(replica),
			Lost:      s.lost,
		})
	}
	return views
}

// number returns 1 for true.
func number(condition bool) int {
	if condition {
		return 1
	}
	return 0
}
