package health

import (
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// dueForTrial returns the replica that gets this query as a trial: its own, else the one whose
// trial is overdue the longest. There is none if its own is available.
func (g *guarded) dueForTrial(query *policy.Query) (policy.ReplicaID, bool) {
	own, isPinned := query.Pinned.Get()
	if query.Attempt != policy.AttemptFirst || isPinned && g.policy.Fleet().IsAvailable(own) {
		return 0, false
	}
	return g.due(query.Pinned, query.Avoid, false)
}

// dueForCopy returns the replica that gets a copy of a query as a trial.
func (g *guarded) dueForCopy() (policy.ReplicaID, bool) {
	if !g.settings.ShadowTrials {
		return 0, false
	}
	return g.due(policy.Optional[policy.ReplicaID]{}, nil, true)
}

func (g *guarded) due(
	own policy.Optional[policy.ReplicaID], avoid []policy.ReplicaID, isCopy bool,
) (due policy.ReplicaID, isAny bool) {
	// Most queries look at no replica, even if many are out.
	if !g.trials.has(1) && !g.hasPassing {
		return 0, false
	}
	longestNS := uint64(0)
	for _, replica := range g.out {
		r := g.find(replica)
		if r == nil || !r.isOffered || slices.Contains(avoid, replica) {
			continue
		}
		waitedNS := since(g.latest, r.course.nextTrialAt)
		if !g.mayTry(r, waitedNS, isCopy) {
			continue
		}
		if own == policy.Some(replica) {
			return replica, true
		}
		if waitedNS >= longestNS {
			due, isAny, longestNS = replica, true, waitedNS
		}
	}
	return due, isAny
}

// mayTry reports whether a replica that is out may get a trial now, for which it has waited for
// waitedNS.
func (g *guarded) mayTry(r *record, waitedNS uint64, isCopy bool) bool {
	// After one has passed, the two that remain need no token.
	if !g.trials.has(1) && !r.course.isPassing() {
		return false
	}
	// Trials wait for copies, if there are any, until the back-off is at its longest and a second
	// trial could be paid for.
	backOffMaxNS := spanNS(g.settings.BackOffMax)
	mayBeCopied := waitedNS < backOffMaxNS || !g.trials.has(2)
	if g.settings.ShadowTrials && !isCopy && mayBeCopied {
		return false
	}
	// Probes cost no query. While they speak against it, no trial is sent, unless that has lasted
	// for very long.
	isSlow := r.course.why != byErrors
	if isSlow && waitedNS < ints.Mul(backOffMaxNS, 2) && r.reportsAgainst(g.latest, 10*tickNS) {
		return false
	}
	if r.course.wantsTrial(g.latest, false) {
		return true
	}
	// The comparison with the others is expensive, so it comes last.
	if isSlow || !r.course.wantsTrial(g.latest, true) {
		return false
	}
	o := g.others(r)
	return isHurried(&o)
}

// tryOut sends a query to a replica that is out. It returns false if the policy does not send it
// there.
func (g *guarded) tryOut(
	replica policy.ReplicaID, query *policy.Query, draw policy.Draw, explanation *policy.Explanation,
) (policy.Decision, bool) {
	// As for all other queries, this replica does not count as available.
	available := len(g.policy.Fleet().Available())
	g.setAvailable(replica, true)
	if !g.policy.Fleet().IsAvailable(replica) {
		g.setAvailable(replica, false)
		// The policy holds it as unreachable or draining, so not every query tries again.
		if r := g.find(replica); r != nil {
			r.course.putOff(g.latest)
		}
		return policy.Decision{}, false
	}
	passed := *query
	passed.Pinned, passed.HasRoom = policy.Some(replica), false
	decision := g.choose(passed, draw, explanation)
	g.setAvailable(replica, false)
	if explanation != nil {
		explanation.SetAvailable(available)
		if r := g.find(replica); r != nil {
			explanation.AddOut(r.absence(replica))
		}
	}
	if decision.Kind == policy.Picked {
		pick := &decision.Pick
		isTrial := pick.Reason == policy.ReasonPinned
		if isTrial {
			pick.Reason = policy.ReasonTrial
			g.trials.spend()
			g.counters.Trials++
		}
		g.sent(pick, isTrial)
	}
	return decision, true
}

// judgeTrial passes a trial whose response started well and still runs.
func (g *guarded) judgeTrial(replica policy.ReplicaID) {
	r := g.find(replica)
	if r == nil {
		return
	}
	if headNS, stands := r.course.standing(g.latest); stands {
		g.tried(replica, r, headNS, policy.OutcomeSuccess)
	}
}

// judged applies the end of a query: to its trial, if it is or was one, and to a replica that
// fails.
func (g *guarded) judged(
	replica policy.ReplicaID, r *record, trial policy.Optional[uint32],
	latencyNS uint64, outcome policy.Outcome, turnsBad bool,
) {
	switch {
	case trial.Known && r.course.awaits(trial.Value):
		g.tried(replica, r, latencyNS, outcome)
	case turnsBad && !r.course.isOut():
		g.failed(replica)
	case turnsBad && trial.Known:
		// It had passed, and broke off.
		r.rememberTrial(false)
		r.course.trialFailed(g.latest, &g.settings)
	}
}

// tried ends a trial.
func (g *guarded) tried(replica policy.ReplicaID, r *record, latencyNS uint64, outcome policy.Outcome) {
	isFast := r.course.why == byErrors || latencyNS <= r.nearNS
	isLate := latencyNS > r.warmNS
	result := trialFailed
	switch {
	case outcome == policy.OutcomeSuccess && isFast:
		result = trialPassed
		g.hasPassing = true
		g.counters.TrialsPassed++
	case outcome == policy.OutcomeDropped && !isLate:
		// If it is late, a second copy was faster by far.
		result = trialVoid
	}
	// A replica that pushes back has no capacity for the query, which does not show how it would do.
	if outcome != policy.OutcomeDropped && outcome != policy.OutcomePushedBack {
		r.rememberTrial(outcome == policy.OutcomeSuccess)
	}
	if r.course.trialEnded(g.latest, result, &g.settings) {
		g.comeBack(replica)
	}
}
