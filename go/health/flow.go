package health

import (
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// Name returns the name of the policy inside.
func (g *guarded) Name() string { return g.policy.Name() }

// Handle takes in an event and passes it on.
func (g *guarded) Handle(now policy.Instant, event policy.Event, draw policy.Draw) {
	switch event.Kind {
	case policy.EventReport, policy.EventSiblingReport, policy.EventCarriedReport,
		policy.EventProbeLost, policy.EventTimeout:
		now = g.tick(now)
	default:
		g.latest = max(g.latest, now)
		now = g.latest
	}
	switch event.Kind {
	case policy.EventAvailable:
		event.Flag = g.offer(event.Replica, event.Flag)
	case policy.EventReport:
		if replica, isKnown := g.policy.ProbeTarget(event.Probe); isKnown {
			g.noteReport(replica, event.Load, (*record).reported)
		}
	case policy.EventSiblingReport:
		g.noteReport(event.Replica, event.Load, (*record).reported)
	case policy.EventCarriedReport:
		g.noteReport(event.Replica, event.Load, (*record).reportCarried)
	}
	g.policy.Handle(now, event, draw)
	// The policy has handled the event by now, so that its fleet is current.
	switch event.Kind {
	case policy.EventAdded:
		g.joined(event.Replica)
	case policy.EventRemoved:
		g.left(event.Replica)
	case policy.EventAvailable:
		if g.members.Contains(event.Replica) {
			g.hasChanged = true
			g.enforceLimit()
		}
	case policy.EventReport, policy.EventSiblingReport, policy.EventTimeout:
		g.keepOne()
	}
}

// joined adds a replica. It counts as new if the fleet has served already.
func (g *guarded) joined(replica policy.ReplicaID) {
	if !g.members.Insert(replica) {
		return
	}
	g.stays++
	g.offered++
	r := newRecord(g.latest, g.stays)
	r.success = g.fleetSuccess
	g.records.Set(replica, r)
	replicas := g.members.Len()
	g.rates.reserve(replicas)
	g.ratesJustNow.reserve(replicas)
	g.latencies.reserve(replicas)
	g.paces.reserve(replicas)
	g.peaks.reserve(replicas)
	g.out = slices.Grow(g.out, max(0, replicas-len(g.out)))
	if g.hasServed {
		g.warmUp(r)
	}
}

// left removes a replica.
func (g *guarded) left(replica policy.ReplicaID) {
	if !g.members.Remove(replica) {
		return
	}
	r, _ := g.records.Remove(replica)
	isOffered := r != nil && r.isOffered
	if isOffered {
		g.offered--
	}
	g.forgetOut(replica, isOffered)
	g.hasChanged = true
	g.enforceLimit()
}

// offer notes whether the caller offers a replica. It returns whether the policy may choose it:
// never while it is out.
func (g *guarded) offer(replica policy.ReplicaID, isAvailable bool) bool {
	r := g.find(replica)
	if r == nil {
		return isAvailable
	}
	isOut := r.course.isOut()
	if r.isOffered != isAvailable {
		r.isOffered = isAvailable
		change := 1
		if !isAvailable {
			change = -1
		}
		g.offered += change
		if isOut {
			g.offeredOut += change
		}
	}
	return isAvailable && !isOut
}

// sent notes that a query is in flight.
func (g *guarded) sent(pick *policy.Pick, isTrial bool) {
	g.inFlight++
	g.hasServed = true
	if r := g.find(pick.Ticket.Replica()); r != nil {
		pick.Ticket.Health = r.sent(g.latest, isTrial)
	}
}

func (g *guarded) warmUp(r *record) {
	if settings := g.settings.WarmUp; settings != nil {
		r.startWarmUp(uint32(settings.ShareMin), g.latest.Add(settings.SpanMax))
		g.counters.WarmUps++
		g.hasChanged = true
	}
}

// noteReport takes in a replica's report about itself.
func (g *guarded) noteReport(
	replica policy.ReplicaID, report *policy.LoadReport,
	note func(*record, policy.Instant, *policy.LoadReport) bool,
) {
	if r := g.find(replica); r != nil && report != nil && note(r, g.latest, report) {
		g.warmUp(r)
	}
}

// choose lets the policy choose for a query. A copy is passed on, since a query that is changed for
// the policy would otherwise be allocated.
func (g *guarded) choose(
	query policy.Query, draw policy.Draw, explanation *policy.Explanation,
) policy.Decision {
	g.query = query
	decision := g.policy.Choose(g.latest, &g.query, draw, explanation)
	g.query = policy.Query{}
	return decision
}

// Choose chooses among the healthy replicas.
func (g *guarded) Choose(
	now policy.Instant, query *policy.Query, draw policy.Draw, explanation *policy.Explanation,
) policy.Decision {
	now = g.tick(now)
	if query.Attempt == policy.AttemptTrial {
		// A copy of a query: it goes to a replica that is out, or nowhere.
		due, isDue := g.dueForCopy()
		if !isDue {
			return policy.Decision{}
		}
		decision, _ := g.tryOut(due, &policy.Query{Attempt: policy.AttemptHedge}, draw, explanation)
		return decision
	}
	if query.Round != nil {
		// The query avoided replicas when its round started, so only the result is noted.
		decision := g.policy.Choose(now, query, draw, explanation)
		if decision.Kind == policy.Picked {
			g.explain(explanation)
			g.sent(&decision.Pick, false)
		}
		return decision
	}
	if query.Attempt == policy.AttemptFirst {
		g.trials.earn()
	}
	if g.hasChanged {
		g.refresh()
	}
	if due, isDue := g.dueForTrial(query); isDue {
		if decision, isSent := g.tryOut(due, query, draw, explanation); isSent {
			g.explain(explanation)
			return decision
		}
	}
	// The usual case is that all replicas have their whole share, which costs one comparison.
	var decision policy.Decision
	if len(g.shares.less) == 0 {
		decision = g.policy.Choose(now, query, draw, explanation)
	} else {
		passed := *query
		passed.Avoid = g.shares.avoided(g.policy.Fleet(), query, draw)
		decision = g.choose(passed, draw, explanation)
	}
	g.explain(explanation)
	if decision.Kind == policy.Picked {
		g.sent(&decision.Pick, false)
	}
	return decision
}

// SparesSome settles the standing of all replicas if that is due. It reports whether some may get
// less than their share of queries, so that a query may be kept from a replica that may be chosen.
func (g *guarded) SparesSome(now policy.Instant) bool {
	g.tick(now)
	return g.hasChanged || len(g.shares.less) > 0
}

// HandleHead books a query at the head of its response, and passes the head on.
func (g *guarded) HandleHead(now policy.Instant, ticket *policy.Ticket, outcome policy.Outcome) {
	now = g.tick(now)
	mark, replica := &ticket.Health, ticket.Replica()
	latencyNS := since(now, ticket.SentAt())
	// Only the first head counts, and only if the replica has not left and rejoined since.
	isFirst := mark.Head(latencyNS, outcome)
	if r := g.find(replica); isFirst && r != nil && r.stay == mark.Stay {
		wakes := r.wake(now)
		r.answered(now, latencyNS, outcome)
		mark.Run = r.booked(g.bucket, latencyNS, outcome)
		if mark.Trial.Known && outcome == policy.OutcomeSuccess {
			r.course.trialBegan(now, mark.Trial.Value, latencyNS)
		}
		if wakes {
			g.woken(replica)
		}
		if outcome.IsFailure() && !mark.Trial.Known {
			g.failed(replica)
		}
	}
	g.policy.HandleHead(now, ticket, outcome)
}

// HandleDone books the end of a query, and passes it on.
func (g *guarded) HandleDone(now policy.Instant, ticket policy.Ticket, outcome policy.Outcome) {
	now = g.tick(now)
	replica, mark := ticket.Replica(), ticket.Health
	tookNS := since(now, ticket.SentAt())
	g.inFlight = ints.Sub(g.inFlight, 1)
	g.policy.HandleDone(now, ticket, outcome)
	r := g.find(replica)
	if r == nil || r.stay != mark.Stay {
		return
	}
	r.ended()
	latencyNS, hasHead := mark.LatencyNS()
	outcome = mark.Outcome(outcome)
	turnsBad, wakes := outcome.IsFailure(), false
	switch {
	case hasHead:
		// Only now is it known to be bad: its head was good.
		turnsBad = turnsBad && mark.BeganWell()
		if turnsBad {
			sinceHeadNS := ints.Sub(tookNS, latencyNS)
			began := ints.Sub(uint64(now), sinceHeadNS) / g.bucketNS
			r.broke(g.bucket, began, mark.Run, tookNS, outcome)
		}
	default:
		// Without a head the query is booked at its end.
		latencyNS = tookNS
		switch outcome {
		case policy.OutcomeSuccess, policy.OutcomeFailed, policy.OutcomePushedBack:
			wakes = r.wake(now)
			r.answered(now, tookNS, outcome)
		default:
			r.unanswered(now, tookNS, outcome)
		}
		r.booked(g.bucket, tookNS, outcome)
	}
	if wakes {
		g.woken(replica)
	}
	g.judged(replica, r, mark.Trial, latencyNS, outcome, turnsBad)
}

// NextProbe returns the policy's next probe.
func (g *guarded) NextProbe(now policy.Instant, draw policy.Draw) (policy.Probe, bool) {
	return g.policy.NextProbe(now, draw)
}

// ProbeTarget returns the replica that the policy's probe was sent to.
func (g *guarded) ProbeTarget(probe policy.ProbeID) (policy.ReplicaID, bool) {
	return g.policy.ProbeTarget(probe)
}

// NextTimeout returns when standings are settled next, or the policy's timeout if that is sooner.
func (g *guarded) NextTimeout() (policy.Instant, bool) {
	timeout, isSet := g.policy.NextTimeout()
	if g.inFlight == 0 && len(g.out) == 0 && len(g.shares.less) == 0 {
		return timeout, isSet
	}
	if isSet {
		return min(g.tickAt, timeout), true
	}
	return g.tickAt, true
}

// WantsTrial reports whether a copy of a query would be a trial.
func (g *guarded) WantsTrial() bool {
	_, isDue := g.dueForCopy()
	return isDue
}

// Fleet returns the policy's fleet.
func (g *guarded) Fleet() *policy.Fleet { return g.policy.Fleet() }
