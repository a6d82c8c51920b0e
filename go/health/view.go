package health

import (
	"math"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// view returns a replica's health as seen from outside.
func (r *record) view(replica policy.ReplicaID) policy.HealthView {
	view := policy.HealthView{
		Replica:           replica,
		State:             r.state(),
		IsSlow:            !r.course.isWhole() && r.course.why != byErrors,
		ShareMillionths:   r.share(true, true),
		SuccessMillionths: r.success,
	}
	if r.latency.Known {
		view.Latency = policy.Some(time.Duration(min(r.latency.Value, math.MaxInt64)))
	}
	return view
}

func (r *record) state() policy.HealthState {
	switch c := &r.course; {
	case c.isOut() && c.why == byErrors:
		return policy.HealthEjected
	case c.isOut():
		return policy.HealthOnProbation
	case c.isReturning():
		return policy.HealthReturning
	case !c.isWhole():
		return policy.HealthHeldBack
	case r.isWarmingUp:
		return policy.HealthWarmingUp
	case r.isPushingBack():
		return policy.HealthPushingBack
	}
	return policy.HealthSound
}

// explain adds the replicas that are out, and those with less than their share, to the policy's
// explanation. The policy has already counted the unavailable ones, so the share of a replica that
// may not be chosen anyway is not added.
func (g *guarded) explain(explanation *policy.Explanation) {
	if explanation == nil {
		return
	}
	for _, replica := range g.out {
		if r := g.find(replica); r != nil {
			explanation.NoteOut(r.absence(replica))
		}
	}
	for _, less := range g.shares.less {
		if r := g.find(less.replica); r != nil && g.policy.Fleet().IsAvailable(less.replica) {
			explanation.AddOut(r.absence(less.replica))
		}
	}
}

// absence returns why a replica cannot be chosen, or only for a part of its share.
func (r *record) absence(replica policy.ReplicaID) policy.Out {
	return policy.Out{
		Replica:         replica,
		Why:             policy.OutReason(r.state().String()),
		ShareMillionths: r.share(true, true),
	}
}

// Counters returns the policy's counts and those of health.
func (g *guarded) Counters() policy.Counters {
	counters := g.policy.Counters()
	counters.Picks.Recount(policy.ReasonPinned, policy.ReasonTrial, g.counters.Trials)
	counters.Health = g.counters
	return counters
}

// Snapshot returns the policy's state and the health of each replica.
func (g *guarded) Snapshot(now policy.Instant) policy.Snapshot {
	snapshot := g.policy.Snapshot(now)
	snapshot.Health = make([]policy.HealthView, 0, g.members.Len())
	for _, replica := range g.members.Members() {
		if r := g.find(replica); r != nil {
			snapshot.Health = append(snapshot.Health, r.view(replica))
		}
	}
	return snapshot
}
