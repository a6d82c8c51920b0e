package policy

import "math"

// poolMin: a smaller pool decides nothing.
const poolMin = 2

// pooled is the probe pool of Prequal with its rule of choice: reports bounded in number, age and
// use. It is section 4 of the paper. This file has the order of steps in a query.
type pooled struct {
	pool  pool
	yield reportYield
	// reuseLimit is equation (1) for the current fleet and yield, in millionths.
	reuseLimit uint64
	// probeShare is the share of the probe rate that reuseLimit was computed for.
	probeShare Millionths
	// removalsOwed are removals by rate, and worstNext says that the next one is of the worst report
	// and not of the oldest.
	removalsOwed accumulator
	worstNext    bool
	reportAgeNS  uint64
}

// newPrequal returns Prequal with asynchronous probes: it probes replicas for requests in flight
// and latency, keeps a small pool of answers, and picks by the hot–cold rule.
//
// Wydrowski, Kleinberg, Rumble, Archer: "Load is not what you should balance: Introducing Prequal",
// NSDI 2024.
func newPrequal(settings *Settings) Policy {
	kept := &pooled{
		pool:        newPool(settings.Prequal.PoolCapacity),
		yield:       reportYield{rate: settings.Prequal.ProbeRate, configured: settings.Prequal.ProbeRate},
		reuseLimit:  uint64(One),
		probeShare:  One,
		reportAgeNS: spanNS(settings.Prequal.ReportAgeMax),
	}
	return newProbed("prequal", kept, &settings.Prequal)
}

func (p *pooled) balanceReuse(client *client) {
	p.probeShare = client.probeShare
	balance := reuseBalance{
		poolCapacity: client.settings.PoolCapacity,
		replicas:     len(client.fleet.Available()),
		probeRate:    p.yield.rate,
		removeRate:   client.removeRate(),
		poolDrift:    client.settings.PoolDrift,
		reuseMax:     client.settings.ReuseMax,
	}
	p.reuseLimit = balance.limit()
}

func (p *pooled) expire(now Instant, client *client) {
	client.counters.RemovedExpired += uint64(p.pool.expire(now, p.reportAgeNS))
}

func (p *pooled) passTurn(Instant, *Query, *client, Draw) {}

// choose picks the best report if at least two are usable, else a random replica.
func (p *pooled) choose(now Instant, query *Query, client *client, draw Draw) (choice, bool) {
	p.expire(now, client)
	limit := client.rifLimit()
	usable := p.pool.usable(query)
	found := choice{rifLimit: limit, candidates: uint16(min(usable, math.MaxUint16))}
	if usable >= poolMin {
		if best, any := p.pool.best(query, rifLimitOf(limit, 1), draw); any {
			report := &p.pool.reports[best.index]
			found.replica = report.replica
			found.reason = hotColdReason(best.first)
			found.chosen = Some(report.view(now, limit))
			if best.runnerUp >= 0 {
				found.runnerUp = Some(p.pool.reports[best.runnerUp].replica)
			}
			// The query counts on the report, and spends one of its uses.
			p.pool.compensate(best.index, 1)
			client.counters.RemovedSpent += uint64(number(p.pool.spend(best.index)))
			return found, true
		}
	}
	// Too few reports are usable.
	replica, any := client.random(now, query, draw)
	if !any {
		return choice{}, false
	}
	found.replica = replica
	found.reason = client.fleet.reasonFor(replica, ReasonFallback)
	p.chargeSiblings(replica, 1)
	return found, true
}

func (p *pooled) explain(now Instant, query *Query, client *client, explanation *Explanation) {
	p.expire(now, client)
	limit := client.rifLimit()
	if p.pool.usable(query) < poolMin {
		client.explainChance(now, query, func(replica ReplicaID) Optional[PooledView] {
			if index := p.pool.position(replica); index >= 0 {
				return Some(p.pool.reports[index].view(now, limit))
			}
			return Optional[PooledView]{}
		}, explanation)
		return
	}
	explanation.compare(byHotCold, sharedLimit(limit))
	standInNS := p.pool.standInNS()
	for index := range p.pool.reports {
		report := &p.pool.reports[index]
		load := report.load(standInNS)
		place := hotColdPlace(load, rifLimitOf(limit, 1))
		explanation.consider(Candidate{
			Replica:  report.replica,
			Report:   Some(report.view(now, limit)),
			InFlight: client.fleet.InFlight(report.replica),
			Values:   hotColdValues(load, place),
			Avoided:  !query.Allows(report.replica),
			place:    place,
		})
	}
}

func (p *pooled) chargePinned(now Instant, replica ReplicaID, client *client) Optional[uint32] {
	p.expire(now, client)
	p.chargeSiblings(replica, 1)
	return client.rifLimit()
}

func (p *pooled) chargeSiblings(replica ReplicaID, queries uint32) {
	if index := p.pool.position(replica); index >= 0 {
		p.pool.compensate(index, queries)
	}
}

// querySent removes by rate. This comes last, because a rule that counts queries in flight must see
// this one to find the worst report.
func (p *pooled) querySent(query *Query, rifLimit Optional[uint32], client *client, draw Draw) {
	if query.Attempt != AttemptFirst {
		return
	}
	p.removeByRate(rifLimit, client, draw)
	isLowered := p.probeShare != client.probeShare
	if p.yield.query() || isLowered {
		p.balanceReuse(client)
	}
}

// removeByRate removes some reports after a query, the oldest and the worst in turn. The oldest,
// because load changes. The worst, because a report that is not chosen stays, so that the pool
// would end up with only loaded replicas.
func (p *pooled) removeByRate(limit Optional[uint32], client *client, draw Draw) {
	// Enough stay that picks do not become random: two reports to decide, and two for when reports
	// come late or in bursts. For a pool hardly larger than that, one less than its capacity, but at
	// least the two to decide.
	floor := max(min(4, p.pool.capacity-1), poolMin)
	for range p.removalsOwed.step(client.removeRate()) {
		switch {
		case len(p.pool.reports) <= floor:
			client.counters.RemovalsWithheld++
			continue
		case p.worstNext:
			p.pool.removeAt(p.pool.worst(rifLimitOf(limit, 1), draw))
			client.counters.RemovedWorst++
		default:
			p.pool.removeAt(0)
			client.counters.RemovedOldest++
		}
		p.worstNext = !p.worstNext
	}
}

func (p *pooled) handleReport(now Instant, from subject, report *LoadReport, client *client, draw Draw) {
	p.yield.report()
	switch p.pool.insert(pooledReport{
		replica:    from.replica,
		rif:        report.RIF,
		usesLeft:   drawUses(p.reuseLimit, draw),
		latencyNS:  spanNS(report.Latency),
		receivedAt: now,
		local:      from.local,
	}) {
	case insertedReplaced:
		client.counters.Replaced++
	case insertedEvicted:
		client.counters.Evicted++
	}
}

func (p *pooled) handleCarried(Instant, ReplicaID, *LoadReport, *client) {}

func (p *pooled) probeRate(client *client) Millionths { return client.settings.ProbeRate }

func (p *pooled) forget(replica ReplicaID) { p.pool.removeReplica(replica) }

func (p *pooled) handleHead(Instant, ReplicaID, head) {}

func (p *pooled) addReplica(ReplicaID) {}

// fleetChanged computes the reuse limit: equation (1) has another n.
func (p *pooled) fleetChanged(client *client) { p.balanceReuse(client) }

func (p *pooled) rifLimit(client *client) Optional[uint32] { return client.rifLimit() }

func (p *pooled) views(now Instant, client *client) []PooledView {
	limit := client.rifLimit()
	var views []PooledView
	for index := range p.pool.reports {
		views = append(views, p.pool.reports[index].view(now, limit))
	}
	return views
}

func (p *pooled) comparison(client *client) (*Comparison, Values) {
	return byHotCold, sharedLimit(client.rifLimit())
}

func (p *pooled) compared(now Instant, client *client) []compared {
	fresh := pool{}
	for _, report := range p.pool.reports {
		if now.nsSince(report.receivedAt) < p.reportAgeNS {
			fresh.reports = append(fresh.reports, report)
		}
	}
	if len(fresh.reports) < poolMin {
		return nil
	}
	limit, standInNS := rifLimitOf(client.rifLimit(), 1), fresh.standInNS()
	var all []compared
	for index := range fresh.reports {
		load := fresh.reports[index].load(standInNS)
		place := hotColdPlace(load, limit)
		all = append(all, compared{
			replica: fresh.reports[index].replica,
			place:   place,
			values:  hotColdValues(load, place),
		})
	}
	return all
}
