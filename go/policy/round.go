package policy

import (
	"iter"
	"time"
)

// MaxRoundProbes is the most replicas that one round probes and waits for.
const MaxRoundProbes = 8

// ProbeRound is a synchronous probing round for one query: d replicas are probed at once. The
// choice is made as soon as max(2, d − 1) have answered, or at the deadline. The caller sends the
// probes of [ProbeRound.Targets], passes what comes back to the round, and then calls
// [Policy.Choose] with it.
type ProbeRound struct {
	// targets has the replicas that the round waits for, and then the scout.
	targets   [MaxRoundProbes + 1]roundTarget
	startedAt Instant
	deadline  Instant
	probed    uint8
	scouts    uint8
	quorum    uint8
	answered  uint8
	waiting   uint8
}

// roundTarget is a replica that a round probes, with its answer.
type roundTarget struct {
	state     targetState
	draining  bool
	loadScale uint16
	rif       uint32
	replica   ReplicaID
	// latencyNS is 0 if unknown.
	latencyNS uint64
}

type targetState uint8

const (
	targetWaiting targetState = iota
	targetLost
	targetAnswered
)

// newProbeRound returns a round that probes the replicas and waits for most of them, and probes the
// scout without waiting.
func newProbeRound(startedAt, deadline Instant, replicas []ReplicaID, scout Optional[ReplicaID]) *ProbeRound {
	round := &ProbeRound{startedAt: startedAt, deadline: deadline}
	for _, replica := range replicas[:min(len(replicas), MaxRoundProbes)] {
		round.targets[round.probed].replica = replica
		round.probed++
	}
	if scout.Known {
		round.targets[round.probed].replica = scout.Value
		round.scouts = 1
	}
	round.waiting = round.probed
	round.quorum = max(saturatingSub8(round.probed, 1), 2)
	return round
}

// waitForAll makes the round wait until each of its replicas has answered or is lost.
func (r *ProbeRound) waitForAll() { r.quorum = max(r.quorum, r.waiting) }

func saturatingSub8(a, b uint8) uint8 { return a - min(a, b) }

func (r *ProbeRound) all() []roundTarget { return r.targets[:r.probed+r.scouts] }

// Targets returns the replicas to probe, all distinct. The last one may be a scout: a replica that
// is not available, for which the round does not wait.
func (r *ProbeRound) Targets() iter.Seq[ReplicaID] {
	return func(yield func(ReplicaID) bool) {
		for i := range r.all() {
			if !yield(r.targets[i].replica) {
				return
			}
		}
	}
}

// StartedAt returns when the query started to wait.
func (r *ProbeRound) StartedAt() Instant { return r.startedAt }

// Deadline returns when to decide with the answers there are.
func (r *ProbeRound) Deadline() Instant { return r.deadline }

// HandleReport takes in an answer. One from a replica that was not probed, or has answered, changes
// nothing.
func (r *ProbeRound) HandleReport(replica ReplicaID, report *LoadReport) {
	if target, counts := r.waitingFor(replica); target != nil {
		target.state = targetAnswered
		target.rif = report.RIF
		target.latencyNS = spanNS(report.Latency)
		target.loadScale = report.loadScale()
		target.draining = report.Draining
		r.answered += counts
		r.waiting -= counts
	}
}

// HandleLost notes that a probe will not be answered, so that the round need not wait for it.
func (r *ProbeRound) HandleLost(replica ReplicaID) {
	if target, counts := r.waitingFor(replica); target != nil {
		target.state = targetLost
		r.waiting -= counts
	}
}

// Ready reports whether enough have answered, or no replica is left that could.
func (r *ProbeRound) Ready() bool { return r.answered >= r.quorum || r.waiting == 0 }

// waitingFor returns the target with this replica, if its probe has not ended, and 1 if the round
// waits for it, or 0 if it is the scout.
func (r *ProbeRound) waitingFor(replica ReplicaID) (*roundTarget, uint8) {
	for i := range r.all() {
		target := &r.targets[i]
		if target.replica != replica {
			continue
		}
		switch {
		case target.state != targetWaiting:
			return nil, 0
		case i < int(r.probed):
			return target, 1
		default:
			return target, 0
		}
	}
	return nil, 0
}

// count returns how many probes are in this state.
func (r *ProbeRound) count(state targetState) uint64 {
	count := uint64(0)
	for i := range r.all() {
		if r.targets[i].state == state {
			count++
		}
	}
	return count
}

// answers returns the answers so far.
func (r *ProbeRound) answers() iter.Seq[*roundTarget] {
	return func(yield func(*roundTarget) bool) {
		for i := range r.all() {
			if r.targets[i].state == targetAnswered && !yield(&r.targets[i]) {
				return
			}
		}
	}
}

// view returns an answer as it was reported.
func (t *roundTarget) view(hot bool) PooledView {
	return PooledView{
		Replica:  t.replica,
		RIF:      t.rif,
		Latency:  time.Duration(t.latencyNS),
		UsesLeft: 1,
		Hot:      hot,
	}
}
