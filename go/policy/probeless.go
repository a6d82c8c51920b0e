package policy

// rule is a rule of choice that uses only the fleet.
type rule interface {
	// choose chooses one of the replicas of the fleet's choice that the query may go to.
	choose(fleet *Fleet, query *Query, draw Draw, explanation *Explanation) (ReplicaID, bool)
}

// probeless is a policy without probes: a fleet, counts, and a rule of choice.
type probeless struct {
	name     string
	reason   PickReason
	rule     rule
	fleet    Fleet
	counters Counters
	// latest is the latest time seen: times of tickets do not step back.
	latest Instant
	// narrowed is a buffer for a query that may go to a few replicas only.
	narrowed narrowed
}

func (p *probeless) tick(now Instant) Instant {
	p.latest = max(p.latest, now)
	return p.latest
}

func (p *probeless) Name() string { return p.name }

func (p *probeless) Handle(now Instant, event Event, _ Draw) {
	switch event.Kind {
	case EventAdded:
		p.fleet.add(event.Replica)
	case EventRemoved:
		p.fleet.remove(event.Replica)
	case EventAvailable:
		p.fleet.setEjected(event.Replica, !event.Flag)
	default:
		// It sends no probes, has nothing to wait for, and learns neither names nor reports.
		return
	}
	p.tick(now)
}

func (p *probeless) Choose(now Instant, query *Query, draw Draw, explanation *Explanation) Decision {
	if query.Attempt == AttemptTrial {
		return Decision{}
	}
	now = p.tick(now)
	query = p.narrowed.narrow(&p.fleet, query)
	if explanation != nil {
		p.fleet.explain(explanation)
	}
	if replica, isPinned := p.fleet.pinned(query); isPinned {
		if explanation != nil {
			explanation.choosePinned(replica)
		}
		return p.picked(now, replica, query.pinReason())
	}
	decides := p.reason
	noted := draw
	if explanation != nil {
		noted = explanation.noting(draw)
	}
	replica, chosen := p.rule.choose(&p.fleet, query, noted, explanation)
	if explanation != nil {
		explanation.noteDraw()
	}
	if !chosen {
		// The query may have tried all available replicas. One that is not available is better than
		// none.
		decides = ReasonRandom
		var found bool
		if replica, found = p.fleet.randomExplained(query, draw, explanation); !found {
			p.counters.NoReplica++
			return Decision{}
		}
	}
	reason := decides
	switch {
	case p.fleet.InPanic():
		reason = ReasonPanic
	case !chosen:
		reason = p.fleet.reasonFor(replica, decides)
	}
	if explanation != nil {
		candidate := Candidate{Replica: replica, InFlight: p.fleet.InFlight(replica)}
		explanation.choose(candidate, decides, Optional[ReplicaID]{})
	}
	return p.picked(now, replica, reason)
}

func (p *probeless) picked(now Instant, replica ReplicaID, reason PickReason) Decision {
	p.counters.Picks[reason]++
	p.fleet.querySent(replica)
	return Decision{Kind: Picked, Pick: Pick{Ticket: Ticket{replica: replica, sentAt: now}, Reason: reason}}
}

func (p *probeless) HandleHead(now Instant, _ *Ticket, _ Outcome) { p.tick(now) }

func (p *probeless) HandleDone(now Instant, ticket Ticket, _ Outcome) {
	p.tick(now)
	p.fleet.queryDone(ticket.replica)
}

func (p *probeless) NextProbe(Instant, Draw) (Probe, bool) { return Probe{}, false }

func (p *probeless) ProbeTarget(ProbeID) (ReplicaID, bool) { return 0, false }

func (p *probeless) NextTimeout() (Instant, bool) { return 0, false }

func (p *probeless) WantsTrial() bool { return false }

func (p *probeless) Fleet() *Fleet { return &p.fleet }

func (p *probeless) Counters() Counters { return p.counters }

func (p *probeless) Snapshot(Instant) Snapshot {
	return Snapshot{Replicas: p.fleet.views(func(ReplicaID) bool { return false })}
}
