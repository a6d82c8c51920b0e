package policy

import "slices"

// ordinaryQuantile: up to this quantile of recent reports, RIF is ordinary. Among five or more
// replicas that answer, a single one cannot define it. It is not the configured quantile of the RIF
// limit, which may make all replicas hot or none.
const ordinaryQuantile Millionths = 800_000

// keeper is what a policy with asynchronous probes keeps of reports, and how it chooses among them.
type keeper interface {
	// passTurn passes the turn of the replica that the query must spare, for policies with turns. It
	// is called before the choice.
	passTurn(now Instant, query *Query, client *client, draw Draw)
	// choose chooses a replica, and charges the query to what is kept. It returns false if the query
	// may go to no replica.
	choose(now Instant, query *Query, client *client, draw Draw) (choice, bool)
	// explain explains what the next choice is made from.
	explain(now Instant, query *Query, client *client, explanation *Explanation)
	// chargePinned charges a choice that was made elsewhere, and returns the RIF limit.
	chargePinned(now Instant, replica ReplicaID, client *client) Optional[uint32]
	// chargeSiblings charges queries that siblings have sent to a replica.
	chargeSiblings(replica ReplicaID, queries uint32)
	// querySent does what follows a choice that was made with this RIF limit. Its query is in flight
	// by now.
	querySent(query *Query, rifLimit Optional[uint32], client *client, draw Draw)
	// handleReport takes in a report of an available replica.
	handleReport(now Instant, from subject, report *LoadReport, client *client, draw Draw)
	// handleCarried takes in the load that an available replica reported with a response.
	handleCarried(now Instant, replica ReplicaID, report *LoadReport, client *client)
	// probeRate returns the probes per query.
	probeRate(client *client) Millionths
	// forget drops what the replica has reported: it no longer predicts what a query meets there.
	forget(replica ReplicaID)
	// handleHead notes the latency of a query to the replica, once per query.
	handleHead(now Instant, replica ReplicaID, head head)
	// addReplica adds a replica about which nothing is known.
	addReplica(replica ReplicaID)
	// fleetChanged notes that availability has changed. Replicas that are no longer available have
	// been forgotten.
	fleetChanged(client *client)
	// rifLimit returns the RIF from which a report is hot, for policies with hot and cold.
	rifLimit(client *client) Optional[uint32]
	// views returns the kept reports, oldest first.
	views(now Instant, client *client) []PooledView
	// comparison returns how reports are compared now, and the values that all have in common.
	comparison(client *client) (*Comparison, Values)
	// compared returns the reports that are compared for the next query, oldest first.
	compared(now Instant, client *client) []compared
}

// subject is the available replica that a report is about.
type subject struct {
	replica ReplicaID
	// ownInFlight is the number of queries that this client has in flight there.
	ownInFlight uint32
	// local: the report is the client's own, in place of an unprobed replica's.
	local bool
}

// compared is a report that is compared for the next query.
type compared struct {
	replica ReplicaID
	place   place
	values  Values
}

// choice is the result of a choice.
type choice struct {
	replica    ReplicaID
	reason     PickReason
	candidates uint16
	rifLimit   Optional[uint32]
	// chosen is the report that decided, as it was before the query was charged to it.
	chosen   Optional[PooledView]
	runnerUp Optional[ReplicaID]
}

// client is the state of a client besides the reports that its policy keeps.
type client struct {
	settings PrequalSettings
	fleet    Fleet
	counters Counters
	// reported is the RIF that available replicas report.
	reported rifDistribution
	// estimated is the estimated RIF of available unprobed replicas. The limit uses it only while no
	// replica reports.
	estimated rifDistribution
	locals    localLoads
	// probeShare is the share of the configured probe rate that is used: less than one in an
	// overload.
	probeShare Millionths
}

// removeRate returns the reports removed after each query, lowered in proportion to the probe rate.
func (c *client) removeRate() Millionths { return c.settings.RemoveRate.share(c.probeShare) }

// rifLimit returns the current RIF limit.
func (c *client) rifLimit() Optional[uint32] {
	if c.reported.isEmpty() {
		return c.estimated.limit(c.settings.RIFLimitQuantile)
	}
	return c.reported.limit(c.settings.RIFLimitQuantile)
}

// ordinary returns a reported RIF, capped at what replicas ordinarily report.
func (c *client) ordinary(rif uint32) uint32 {
	return min(rif, c.reported.limit(ordinaryQuantile).Or(rif))
}

// random returns a uniformly random replica that the query may go to. Replicas that are unprobed
// and out of reach are used only if there is no other.
func (c *client) random(now Instant, query *Query, draw Draw) (ReplicaID, bool) {
	withinReach := uint32(0)
	if c.locals.anyOutOfReach(now) {
		for _, replica := range c.fleet.choiceFor(query) {
			withinReach += uint32(number(c.isWithinReach(now, query, replica)))
		}
	}
	if withinReach == 0 {
		return c.fleet.random(query, draw)
	}
	index := Below(draw, withinReach)
	for _, replica := range c.fleet.choiceFor(query) {
		if !c.isWithinReach(now, query, replica) {
			continue
		}
		if index == 0 {
			return replica, true
		}
		index--
	}
	return 0, false
}

func (c *client) isWithinReach(now Instant, query *Query, replica ReplicaID) bool {
	return query.Allows(replica) && !c.locals.isOutOfReach(now, replica)
}

// explainChance explains a random pick: the replicas that random draws from, each with its report
// if it has one.
func (c *client) explainChance(
	now Instant, query *Query, report func(ReplicaID) Optional[PooledView], explanation *Explanation,
) {
	explanation.compare(chance, Values{})
	onlyWithin := c.locals.anyOutOfReach(now) && slices.ContainsFunc(c.fleet.choiceFor(query),
		func(replica ReplicaID) bool { return c.isWithinReach(now, query, replica) })
	for _, replica := range c.fleet.allowedSet(query) {
		if query.Allows(replica) && (!onlyWithin || c.isWithinReach(now, query, replica)) {
			explanation.consider(Candidate{
				Replica:  replica,
				Report:   report(replica),
				InFlight: c.fleet.InFlight(replica),
			})
		}
	}
}

// probed is a policy with asynchronous probes: a fleet, probes in flight, replicas that answer
// none, and what is kept of reports.
type probed struct {
	name string
	// drawsOthers: in the report of an unprobed replica, the estimated load of other clients has the
	// spread of recent reports, and these are not capped at what is ordinary. Such a policy has no RIF
	// limit that is learned from reports.
	drawsOthers bool
	// withoutReports is the rule of a pick when no report helps.
	withoutReports PickReason

	kept               keeper
	client             client
	probing            probing
	probeIntervalMinNS uint64
	probesOwed         accumulator
	// probesLeftOut is the part of probesOwed that an overload suppressed.
	probesLeftOut accumulator
	// latest is the latest time seen. The order of reports, and every age, rely on time that does
	// not step back.
	latest Instant
	// lost is a buffer for replicas whose probes expire together.
	lost []ReplicaID
	// report is a buffer for a report that differs from what the replica has sent.
	report LoadReport
	// narrowed is a buffer for a query that may go to a few replicas only.
	narrowed narrowed
}

func newProbed(name string, kept keeper, settings *PrequalSettings) *probed {
	return &probed{
		name:               name,
		withoutReports:     ReasonRandom,
		kept:               kept,
		client:             client{settings: *settings, probeShare: One},
		probing:            newProbing(settings),
		probeIntervalMinNS: spanNS(settings.ProbeIntervalMin),
		lost:               make([]ReplicaID, 0, settings.ProbesOutstandingMax),
	}
}

// tick returns the current time: now, or the latest time seen if the caller's clock has stepped
// back.
func (p *probed) tick(now Instant) Instant {
	p.latest = max(p.latest, now)
	return p.latest
}

// takeReport takes in the report with which a probe was answered.
func (p *probed) takeReport(now Instant, from answer, report *LoadReport, draw Draw) {
	if from.standing == nil {
		p.client.counters.ReportsUnknown++
		return
	}
	// A lost replica is lost no longer.
	fleet := &p.client.fleet
	found := fleet.answered(now, from.replica, from.lost, from.own)
	p.client.locals.answered(from.replica, from.roundTripNS, from.own)
	p.fleetChanged(from.replica, found)
	if from.standing.draining != report.Draining {
		p.fleetChanged(from.replica, fleet.setDraining(from.replica, report.Draining))
	}
	// An unavailable replica runs empty, which shows neither the load of the others nor which RIF is
	// high among them.
	if !fleet.mayBeChosen(from.standing) {
		return
	}
	// The RIF is at least what this client alone had there all the time.
	if report.RIF < from.standing.outSinceProbe {
		p.report = *report
		p.report.RIF = from.standing.outSinceProbe
		report = &p.report
	}
	ownInFlight := from.standing.inFlight
	if p.drawsOthers {
		p.client.locals.noteOthers(report, report.RIF, ownInFlight)
	} else {
		p.client.locals.noteOthers(report, p.client.ordinary(report.RIF), ownInFlight)
		p.client.reported.record(report.RIF)
	}
	p.kept.handleReport(now, subject{replica: from.replica, ownInFlight: ownInFlight}, report, &p.client, draw)
}

// membershipChanged handles a replica that has joined or left.
func (p *probed) membershipChanged(replica ReplicaID) {
	found := changedItself
	if p.client.fleet.lost > 0 {
		found = changedOthers
	}
	p.fleetChanged(replica, found)
}

// fleetChanged handles a possible change of availability: nothing is kept of unavailable replicas.
func (p *probed) fleetChanged(replica ReplicaID, found changed) {
	if found == changedNone {
		return
	}
	p.settle(replica)
	if found == changedOthers {
		for _, other := range p.client.fleet.Known() {
			p.settle(other)
		}
	}
	p.kept.fleetChanged(&p.client)
	p.forgetIfDeaf()
}

func (p *probed) settle(replica ReplicaID) {
	if !p.client.fleet.IsAvailable(replica) {
		p.kept.forget(replica)
	}
	p.client.locals.settle(replica, &p.client.fleet)
}
