package policy

import (
	"math"
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// prequalSync is Prequal in synchronous mode: there is no pool. Each query probes a few random
// replicas and goes to the best that answers.
//
// It costs each query a round trip. That is worth it if a probe can carry what the query is about:
// a replica that has the data at hand scales its reported load down and attracts the query.
//
// This mode does not balance replicas without probes by the client's own counts: each round that
// includes one waits for its deadline, and such a replica is picked only at random. If some
// replicas do not answer, use the asynchronous mode.
type prequalSync struct {
	settings PrequalSettings
	fleet    Fleet
	reported rifDistribution
	counters Counters
	// targets is a buffer for a round's targets.
	targets []ReplicaID
	// answers and knownNS are buffers for the usable answers to a round, and their latencies.
	answers []*roundTarget
	knownNS []uint64
	// narrowed and homes are buffers for a query that may go to a few replicas only.
	narrowed narrowed
	homes    [AmongMax]ReplicaID
}

func newPrequalSync(settings *Settings) Policy {
	return &prequalSync{
		settings: settings.Prequal,
		targets:  make([]ReplicaID, 0, 2*MaxRoundProbes),
		answers:  make([]*roundTarget, 0, MaxRoundProbes+1),
		knownNS:  make([]uint64, 0, MaxRoundProbes+1),
	}
}

func (p *prequalSync) Name() string { return "prequal_sync" }

func (p *prequalSync) Handle(_ Instant, event Event, _ Draw) {
	// It learns only from its rounds, and the caller keeps their deadlines.
	switch event.Kind {
	case EventAdded:
		p.fleet.add(event.Replica)
	case EventRemoved:
		p.fleet.remove(event.Replica)
	case EventAvailable:
		p.fleet.setEjected(event.Replica, !event.Flag)
	}
}

func (p *prequalSync) Choose(now Instant, query *Query, draw Draw, explanation *Explanation) Decision {
	if query.Attempt == AttemptTrial {
		return Decision{}
	}
	if query.Round != nil {
		return p.finishRound(now, query, draw, explanation)
	}
	if explanation != nil {
		p.fleet.explain(explanation)
	}
	if replica, isPinned := p.fleet.pinned(query); isPinned {
		if explanation != nil {
			explanation.choosePinned(replica)
		}
		return p.picked(now, Pick{Ticket: Ticket{replica: replica}, Reason: query.pinReason()})
	}
	hasHomes := p.drawTargets(query, draw)
	// One answer would not be a choice, so it is not worth a round trip.
	if len(p.targets) < 2 {
		return p.fallBack(now, query, draw, explanation)
	}
	var scout Optional[ReplicaID]
	if !p.fleet.InPanic() {
		scout = p.scout(query, draw)
	}
	p.counters.ProbesSent += uint64(len(p.targets) + number(scout.Known))
	deadline := now.Add(p.settings.SyncDeadline)
	round := newProbeRound(now, deadline, p.targets, scout)
	if hasHomes {
		// Without the answers of its homes, the query would often miss what they have.
		round.waitForAll()
	}
	return Decision{Kind: ProbeFirst, Round: round}
}

// drawTargets draws at most as many distinct replicas as a round probes, of those that the query
// may go to: its homes, and others. Every set of the others is equally likely. It reports whether
// the query has homes to go to.
func (p *prequalSync) drawTargets(query *Query, draw Draw) bool {
	count := int(p.settings.SyncProbes)
	homes := appendChoosable(p.homes[:0], &p.fleet, query, query.Homes)
	from := appendChoosable(p.narrowed.replicas[:0], &p.fleet, query, query.Among)
	if len(from) == 0 {
		from = p.fleet.choice()
	}
	// Some of those drawn may be homes, which are probed anyway.
	p.targets = drawDistinct(uint32(count+len(query.Avoid)), from, draw, p.targets[:0])
	others := p.targets[:0]
	for _, replica := range p.targets {
		if !query.avoids(replica) && !slices.Contains(homes, replica) {
			others = append(others, replica)
		}
	}
	// The rest are in random order, so any of them may be cut.
	p.targets = others[:min(len(others), max(count-len(homes), 0))]
	p.targets = append(p.targets, homes[:min(len(homes), count)]...)
	return len(homes) > 0
}

// scout returns a random replica to probe as well, if it is not available: its answer can show that
// it no longer drains. The query does not wait for it.
func (p *prequalSync) scout(query *Query, draw Draw) Optional[ReplicaID] {
	known := p.fleet.Known()
	if len(known) == len(p.fleet.Available()) {
		return Optional[ReplicaID]{}
	}
	replica := known[Below(draw, uint32(len(known)))]
	if p.fleet.IsAvailable(replica) || query.avoids(replica) {
		return Optional[ReplicaID]{}
	}
	return Some(replica)
}

// picked charges a pick.
func (p *prequalSync) picked(now Instant, pick Pick) Decision {
	pick.Ticket.sentAt = now
	p.counters.Picks[pick.Reason]++
	p.fleet.querySent(pick.Ticket.replica)
	return Decision{Kind: Picked, Pick: pick}
}

// fallBack picks at random, for when probes show nothing; one of the query's homes, if it has any.
func (p *prequalSync) fallBack(now Instant, query *Query, draw Draw, explanation *Explanation) Decision {
	query = p.narrowed.narrow(&p.fleet, query)
	replica, found := p.fleet.randomExplained(query, draw, explanation)
	if !found {
		p.counters.NoReplica++
		return Decision{}
	}
	if explanation != nil {
		chosen := Candidate{Replica: replica, InFlight: p.fleet.InFlight(replica)}
		explanation.choose(chosen, ReasonRandom, Optional[ReplicaID]{})
	}
	reason := p.fleet.reasonFor(replica, ReasonFallback)
	return p.picked(now, Pick{Ticket: Ticket{replica: replica}, Reason: reason})
}

// finishRound picks by the answers to a round, or at random if none is usable.
func (p *prequalSync) finishRound(now Instant, query *Query, draw Draw, explanation *Explanation) Decision {
	round := query.Round
	p.learn(now, round)
	if explanation != nil {
		p.explain(query, explanation)
	}
	limit := p.reported.limit(p.settings.RIFLimitQuantile)
	standInNS := p.useAnswers(query, appendChoosable(p.narrowed.replicas[:0], &p.fleet, query, query.Among))
	noted := draw
	if explanation != nil {
		noted = explanation.noting(draw)
	}
	found, any := best(len(p.answers), func(index int) (place, bool) {
		at := hotColdPlace(p.answers[index].load(standInNS), rifLimitOf(limit, trueLoad))
		return at.clamped(poolPlaces), true
	}, noted)
	probing := now.Since(round.startedAt)
	if !any {
		decision := p.fallBack(now, query, draw, explanation)
		decision.Pick.Probing = probing
		return decision
	}
	chosen := p.answers[found.index].view(isHot(found.first))
	pick := Pick{
		Ticket:     Ticket{replica: chosen.Replica},
		Reason:     hotColdReason(found.first),
		RIFLimit:   limit,
		Candidates: uint16(min(len(p.answers), math.MaxUint16)),
		Chosen:     Some(chosen),
		Probing:    probing,
	}
	if found.runnerUp >= 0 {
		pick.RunnerUp = Some(p.answers[found.runnerUp].replica)
	} else {
		pick.Reason = ReasonSoleAnswer
	}
	if explanation != nil {
		explanation.noteDraw()
		explanation.choose(p.candidate(chosen), pick.Reason, pick.RunnerUp)
	}
	return p.picked(now, pick)
}

// learn records everything that a round's answers contain, for any pick.
func (p *prequalSync) learn(now Instant, round *ProbeRound) {
	p.counters.Rounds++
	p.counters.ProbingNS += now.nsSince(round.startedAt)
	p.counters.ProbesLost += round.count(targetLost)
	p.counters.ReportsLate += round.count(targetWaiting)
	for answer := range round.answers() {
		p.counters.ProbesAnswered++
		if p.fleet.standings.Find(answer.replica) == nil {
			p.counters.ReportsUnknown++
			continue
		}
		p.fleet.setDraining(answer.replica, answer.draining)
		if p.fleet.IsAvailable(answer.replica) {
			p.reported.record(answer.rif)
		}
	}
}

// useAnswers collects the usable answers to the query's round: those of available replicas that it
// does not avoid, and if among has any, only of those. Since the round began, a copy of the query
// may have gone to a replica that answered. It returns the stand-in for an unknown latency: the
// median of the known ones. Like them, it is scaled by what the replica asks for, so an idle
// replica that has the data attracts the query. Without any, the scales alone decide.
func (p *prequalSync) useAnswers(query *Query, among []ReplicaID) uint64 {
	p.answers, p.knownNS = p.answers[:0], p.knownNS[:0]
	for answer := range query.Round.answers() {
		mayBe := len(among) == 0 || slices.Contains(among, answer.replica)
		if !mayBe || query.avoids(answer.replica) || !p.fleet.IsAvailable(answer.replica) {
			continue
		}
		p.answers = append(p.answers, answer)
		if answer.latencyNS > 0 {
			p.knownNS = append(p.knownNS, answer.latencyNS)
		}
	}
	if len(p.knownNS) == 0 {
		return trueLoad // scaled, it is the scale itself
	}
	return standInNS(p.knownNS)
}

// explain explains the answers to a round, as reported. Their compared values are scaled.
func (p *prequalSync) explain(query *Query, explanation *Explanation) {
	p.fleet.explain(explanation)
	limit := p.reported.limit(p.settings.RIFLimitQuantile)
	explanation.compare(byHotColdScaled, sharedLimit(limit))
	standInNS := p.useAnswers(query, nil)
	for answer := range query.Round.answers() {
		load := answer.load(standInNS)
		place := hotColdPlace(load, rifLimitOf(limit, trueLoad))
		candidate := p.candidate(answer.view(isHot(place.first)))
		candidate.Avoided = !p.fleet.IsAvailable(answer.replica) || query.avoids(answer.replica)
		candidate.Values = hotColdValues(load, place)
		candidate.place = place
		explanation.consider(candidate)
	}
}

func (p *prequalSync) candidate(report PooledView) Candidate {
	return Candidate{
		Replica:  report.Replica,
		Report:   Some(report),
		InFlight: p.fleet.InFlight(report.Replica),
	}
}

func (p *prequalSync) HandleHead(Instant, *Ticket, Outcome) {}

func (p *prequalSync) HandleDone(_ Instant, ticket Ticket, _ Outcome) {
	p.fleet.queryDone(ticket.replica)
}

func (p *prequalSync) NextProbe(Instant, Draw) (Probe, bool) { return Probe{}, false }

func (p *prequalSync) ProbeTarget(ProbeID) (ReplicaID, bool) { return 0, false }

func (p *prequalSync) NextTimeout() (Instant, bool) { return 0, false }

func (p *prequalSync) WantsTrial() bool { return false }

func (p *prequalSync) Fleet() *Fleet { return &p.fleet }

func (p *prequalSync) Counters() Counters { return p.counters }

func (p *prequalSync) Snapshot(Instant) Snapshot {
	return Snapshot{
		Replicas: p.fleet.views(func(ReplicaID) bool { return false }),
		RIFLimit: p.reported.limit(p.settings.RIFLimitQuantile),
	}
}

// load returns the load of an answer that is compared. RIF is in 1/1024, so that scaling loses no
// precision.
func (t *roundTarget) load(standInNS uint64) load {
	latencyNS := t.latencyNS
	if latencyNS == 0 {
		latencyNS = standInNS
	}
	return load{
		rif:       uint64(t.rif) * uint64(t.loadScale),
		latencyNS: ints.MulDiv(latencyNS, uint64(t.loadScale), trueLoad),
	}
}
