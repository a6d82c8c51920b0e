package policy

import "slices"

// How queries, probes and timeouts pass through a policy that probes asynchronously.

func (p *probed) Name() string { return p.name }

func (p *probed) Handle(now Instant, event Event, draw Draw) {
	now = p.tick(now)
	c := &p.client
	switch event.Kind {
	case EventAdded:
		p.add(now, event.Replica)
	case EventRemoved:
		p.remove(event.Replica)
	case EventAvailable:
		p.fleetChanged(event.Replica, c.fleet.setEjected(event.Replica, !event.Flag))
	case EventReport, EventSiblingReport, EventCarriedReport:
		if event.Load != nil {
			p.handleReport(now, &event, draw)
		}
	case EventSiblingQueries:
		p.kept.chargeSiblings(event.Replica, event.Count)
	case EventProbeLost:
		if replica, ended := p.probing.end(event.Probe, &c.fleet); ended {
			p.probeLost(now, replica)
		}
	case EventProbeUnsent:
		c.counters.ProbesUnsent += uint64(number(p.probing.unsend(event.Probe, &c.fleet)))
	case EventTimeout:
		p.handleTimeout(now, draw)
	}
}

// handleReport takes in a report. Answers to own probes and to those of siblings are equally good
// samples.
func (p *probed) handleReport(now Instant, event *Event, draw Draw) {
	c := &p.client
	switch event.Kind {
	case EventReport:
		p.expireProbes(now)
		from, ended := p.probing.endAnswered(now, event.Probe, &c.fleet)
		if !ended {
			c.counters.ReportsLate++
			return
		}
		c.counters.ProbesAnswered++
		p.takeReport(now, from, event.Load, draw)
	case EventSiblingReport:
		from := answer{replica: event.Replica, standing: c.fleet.standings.Find(event.Replica)}
		if from.standing != nil {
			from.lost = from.standing.lastProbe.answered(now)
		}
		p.takeReport(now, from, event.Load, draw)
	case EventCarriedReport:
		if c.fleet.IsAvailable(event.Replica) {
			p.kept.handleCarried(now, event.Replica, event.Load, c)
		}
	}
}

func (p *probed) add(now Instant, replica ReplicaID) {
	c := &p.client
	if !c.fleet.add(replica) {
		return
	}
	p.probing.beginRest(now)
	c.locals.add(replica)
	p.kept.addReplica(replica)
	if c.settings.LocalOnly {
		c.locals.beginSilence(replica, &c.fleet)
	}
	p.membershipChanged(replica)
}

func (p *probed) remove(replica ReplicaID) {
	if p.client.fleet.remove(replica) {
		p.probing.remove(replica)
		p.client.locals.remove(replica)
		p.membershipChanged(replica)
	}
}

func (p *probed) handleTimeout(now Instant, draw Draw) {
	p.expireProbes(now)
	if p.probing.isIdle(now) {
		p.probing.jitter(p.client.settings.ProbeIdleMax, draw)
		p.probing.rest(now)
		probes := uint32(p.client.settings.IdleProbes)
		p.client.counters.ProbesIdle += uint64(probes)
		p.wantProbes(probes)
	}
}

func (p *probed) Choose(now Instant, query *Query, draw Draw, explanation *Explanation) Decision {
	now = p.tick(now)
	c := &p.client
	query = p.narrowed.narrow(&c.fleet, query)
	if explanation != nil {
		c.fleet.explain(explanation)
	}
	var found choice
	pinned, isPinned := c.fleet.pinned(query)
	isFound := isPinned
	switch {
	case isPinned:
		found.replica, found.reason = pinned, query.pinReason()
		found.rifLimit = p.kept.chargePinned(now, pinned, c)
	case query.Attempt == AttemptTrial:
	default:
		p.kept.passTurn(now, query, c, draw)
		if explanation != nil {
			p.kept.explain(now, query, c, explanation)
			draw = explanation.noting(draw)
		}
		found, isFound = p.kept.choose(now, query, c, draw)
		if explanation != nil {
			draw = explanation.noteDraw()
		}
	}
	if !isFound {
		c.counters.NoReplica++
		return Decision{}
	}
	// A query triggers its probes once, at its first attempt.
	if query.Attempt == AttemptFirst {
		p.wantQueryProbes(now)
	}
	if explanation != nil {
		p.explainChoice(&found, isPinned, explanation)
	}
	// The query must be in flight before removal by rate, which querySent does.
	c.counters.Picks[found.reason]++
	c.fleet.querySent(found.replica)
	p.kept.querySent(query, found.rifLimit, c, draw)
	return Decision{Kind: Picked, Pick: Pick{
		Ticket: Ticket{
			replica: found.replica,
			sentAt:  now,
			local:   c.locals.querySent(now, found.replica),
		},
		Reason:     found.reason,
		RIFLimit:   found.rifLimit,
		Candidates: found.candidates,
		Chosen:     found.chosen,
		RunnerUp:   found.runnerUp,
	}}
}

// explainChoice explains the choice, before the query is charged to it.
func (p *probed) explainChoice(found *choice, isPinned bool, explanation *Explanation) {
	if isPinned {
		explanation.choosePinned(found.replica)
		return
	}
	rule := p.withoutReports
	if found.chosen.Known {
		rule = found.reason
	}
	chosen := Candidate{
		Replica:  found.replica,
		Report:   found.chosen,
		InFlight: p.client.fleet.InFlight(found.replica),
	}
	explanation.choose(chosen, rule, found.runnerUp)
}

// headReady notes the latency of a query to the replica, once per query.
func (p *probed) headReady(now Instant, replica ReplicaID, head head) {
	head.ns = p.client.locals.withoutWayNS(replica, head.ns)
	p.kept.handleHead(now, replica, head)
}

func (p *probed) HandleHead(now Instant, ticket *Ticket, outcome Outcome) {
	now = p.tick(now)
	p.client.locals.headReady(now, ticket, outcome)
	if ticket.endLatency(now, outcome) {
		p.headReady(now, ticket.replica, ticket.head)
	}
}

func (p *probed) HandleDone(now Instant, ticket Ticket, outcome Outcome) {
	now = p.tick(now)
	p.client.fleet.queryDone(ticket.replica)
	p.client.locals.queryDone(now, &ticket, outcome)
	if ticket.endLatency(now, outcome) {
		p.headReady(now, ticket.replica, ticket.head)
	}
	if outcome == OutcomeNoConnection {
		p.kept.forget(ticket.replica)
	}
}

func (p *probed) NextProbe(now Instant, draw Draw) (Probe, bool) {
	now = p.tick(now)
	p.expireProbes(now)
	return p.nextProbe(now, draw)
}

func (p *probed) ProbeTarget(probe ProbeID) (ReplicaID, bool) {
	if slot := p.probing.find(probe); slot != nil {
		return slot.replica, true
	}
	return 0, false
}

func (p *probed) NextTimeout() (Instant, bool) {
	if len(p.client.fleet.Known()) == 0 {
		return 0, false
	}
	return p.probing.nextTimeout()
}

func (p *probed) WantsTrial() bool { return false }

func (p *probed) Fleet() *Fleet { return &p.client.fleet }

func (p *probed) Counters() Counters { return p.client.counters }

func (p *probed) Snapshot(now Instant) Snapshot {
	now = max(p.latest, now)
	c := &p.client
	snapshot := Snapshot{
		Replicas:  c.fleet.views(c.locals.isUnprobed),
		Pool:      p.kept.views(now, c),
		RIFLimit:  p.kept.rifLimit(c),
		ProbeRate: p.probeRate(),
	}
	snapshot.Pool = slices.DeleteFunc(snapshot.Pool, func(view PooledView) bool {
		return view.Age >= c.settings.ReportAgeMax
	})
	order := p.kept.compared(now, c)
	if len(order) == 0 {
		return snapshot
	}
	slices.SortStableFunc(order, func(a, b compared) int { return a.place.compare(b.place) })
	for _, candidate := range order {
		ranked := Ranked{Replica: candidate.replica, Values: candidate.values}
		snapshot.Order = append(snapshot.Order, ranked)
	}
	snapshot.Comparison, snapshot.Shared = p.kept.comparison(c)
	if len(order) == 1 || order[0].place != order[1].place {
		snapshot.Next = Some(order[0].replica)
	}
	return snapshot
}
