package health

import (
	"slices"

	"github.com/slackwater/slackwater/go/policy"
)

// passOn passes a change of availability to the policy. No policy draws for this.
func (g *guarded) passOn(kind policy.EventKind, replica policy.ReplicaID, flag bool) {
	g.policy.Handle(g.latest, policy.Event{Kind: kind, Replica: replica, Flag: flag}, nil)
}

func (g *guarded) setAvailable(replica policy.ReplicaID, isAvailable bool) {
	g.passOn(policy.EventAvailable, replica, isAvailable)
}

// leave takes a replica out of the choice, or spares it if too many are out.
func (g *guarded) leave(replica policy.ReplicaID, why cause, isSudden bool) {
	r := g.find(replica)
	if r == nil {
		return
	}
	g.hasChanged = true
	if g.offeredOut >= g.outMax() {
		if r.course.isWhole() {
			g.counters.Spared++
		}
		r.course.keepLimited(g.latest, why)
		return
	}
	r.remember(isSudden)
	r.course.leave(g.latest, why, &g.settings)
	if why == byErrors {
		g.counters.Ejections++
	} else {
		g.counters.Probations++
	}
	g.out = append(g.out, replica)
	g.offeredOut++
	g.setAvailable(replica, false)
}

// comeBack brings a replica back with a small share. It is judged by what it does from now on.
func (g *guarded) comeBack(replica policy.ReplicaID) {
	r := g.find(replica)
	if r == nil {
		return
	}
	r.course.comeBack(g.latest)
	r.forget()
	g.counters.Readmissions++
	g.setAvailable(replica, true)
	// A replica that is unreachable or draining stays so.
	if r.inFlight == 0 && g.policy.Fleet().IsAvailable(replica) {
		// The policy learned about it while it was bad, and some policies need minutes to unlearn
		// that.
		g.passOn(policy.EventRemoved, replica, false)
		g.passOn(policy.EventAdded, replica, false)
	}
	g.setAvailable(replica, r.isOffered)
	g.admit(replica)
}

// woken admits a replica that was silent and answers again.
func (g *guarded) woken(replica policy.ReplicaID) {
	g.counters.Readmissions++
	g.admit(replica)
}

// admit lets the policy choose a replica that is no longer out.
func (g *guarded) admit(replica policy.ReplicaID) {
	g.hasChanged = true
	r := g.find(replica)
	isOffered := r != nil && r.isOffered
	g.forgetOut(replica, isOffered)
	if isOffered {
		g.setAvailable(replica, true)
	}
}

// forgetOut removes a replica from those that are out.
func (g *guarded) forgetOut(replica policy.ReplicaID, isOffered bool) {
	place := slices.Index(g.out, replica)
	if place < 0 {
		return
	}
	g.out = slices.Delete(g.out, place, place+1)
	if isOffered {
		g.offeredOut--
	}
}

// outMax returns how many of the offered replicas may be out.
func (g *guarded) outMax() int {
	return int(uint64(g.offered) * uint64(g.settings.OutMax) / uint64(whole))
}

// enforceLimit brings the least bad replicas back with a small share while too many are out, or
// none is left.
func (g *guarded) enforceLimit() {
	for len(g.out) > 0 &&
		(g.offeredOut > g.outMax() || len(g.policy.Fleet().Available()) == 0) {
		var best *record
		var replica policy.ReplicaID
		for _, out := range g.out {
			r := g.find(out)
			if r != nil && r.isOffered && (best == nil || r.success >= best.success) {
				best, replica = r, out
			}
		}
		if best == nil {
			return
		}
		best.course.keepLimited(g.latest, best.course.why)
		g.admit(replica)
	}
}

// keepOne runs enforceLimit if the policy has no replica left to choose, which a report or a lost
// probe can cause. It runs with each report, so it looks at no replica while any is left.
func (g *guarded) keepOne() {
	if len(g.policy.Fleet().Available()) == 0 {
		g.enforceLimit()
	}
}

// refresh notes the replicas that have less than their whole share. Warm-up does not lower shares
// where more than half of the replicas in the choice warm up, since the others could not take their
// queries. The same holds for pushback.
func (g *guarded) refresh() {
	g.hasChanged = false
	g.shares.clear()
	count, warmingUp, pushingBack := 0, 0, 0
	for _, replica := range g.members.Members() {
		r := g.find(replica)
		if r == nil || !r.isInChoice() {
			continue
		}
		count++
		if r.isWarmingUp {
			warmingUp++
		}
		if r.isPushingBack() {
			pushingBack++
		}
	}
	sparesNew, sparesFull := 2*warmingUp <= count, 2*pushingBack <= count
	for _, replica := range g.members.Members() {
		if r := g.find(replica); r != nil && r.isInChoice() {
			g.shares.add(replica, r.share(sparesNew, sparesFull), !r.course.isWhole())
		}
	}
}

// failed ejects a replica at once that fails again and again while the others do not.
func (g *guarded) failed(replica policy.ReplicaID) {
	r := g.find(replica)
	if r == nil || g.settings.Errors == nil || !r.isInChoice() {
		return
	}
	if run, isBeyond := r.run(); isBeyond && g.isNoChance(replica, run) {
		g.leave(replica, byErrors, true)
		return
	}
	if !r.course.isReturning() {
		return
	}
	// A failure ejects a replica that trials had brought back at once, and not at the next tick.
	o := g.others(r)
	r.estimate(g.latest, g.bucket, g.fleetSuccess)
	if isBad(r, &o) {
		g.carryOut(replica, judgeBad(g.latest, r, byErrors))
	}
}

// isNoChance reports whether this run of failures is beyond chance, given how the others fail in
// their last eight queries each. The last tick may be older than the trouble.
func (g *guarded) isNoChance(replica policy.ReplicaID, run uint32) bool {
	var replicasOf [9]int
	others := 0
	for _, other := range g.members.Members() {
		if r := g.find(other); other != replica && r != nil && r.isCompared() {
			replicasOf[r.lastEight()]++
			others++
		}
	}
	if others == 0 {
		return false
	}
	eighths, left := uint32(0), others/2
	for left >= replicasOf[eighths] {
		left -= replicasOf[eighths]
		eighths++
	}
	return run >= failuresMax(eighths*(whole/8), g.settings.Errors)
}
