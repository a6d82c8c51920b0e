package policy

import "slices"

// The probes of a policy: which are sent, which are answered here, and the effect of a loss.

// nextProbe returns the next probe to send. Unprobed replicas that come before it are answered for.
func (p *probed) nextProbe(now Instant, draw Draw) (Probe, bool) {
	for {
		replica, due := p.probing.nextTarget(p.client.fleet.Known(), draw)
		if !due {
			return Probe{}, false
		}
		var probe Probe
		var sent bool
		if p.client.locals.isUnprobed(replica) {
			probe, sent = p.answerForUnprobed(now, replica, draw)
		} else {
			probe, sent = p.probe(now, replica)
		}
		if sent {
			p.client.counters.ProbesSent++
			p.probing.rest(now)
			return probe, true
		}
	}
}

func (p *probed) probe(now Instant, replica ReplicaID) (Probe, bool) {
	counters := &p.client.counters
	probe, why := p.probing.send(now, replica, &p.client.fleet, p.probeIntervalMinNS)
	switch why {
	case skippedNot:
		return probe, true
	case skippedOutstanding:
		counters.ProbesSkippedOutstanding++
	case skippedInterval:
		counters.ProbesSkippedInterval++
	case skippedCap:
		counters.ProbesSkippedCap++
	case skippedRate:
		counters.ProbesSkippedRate++
	}
	return Probe{}, false
}

// answerForUnprobed answers an unprobed replica's probe here. A real probe is sent only now and
// then.
func (p *probed) answerForUnprobed(now Instant, replica ReplicaID, draw Draw) (Probe, bool) {
	c := &p.client
	ownInFlight := c.fleet.InFlight(replica)
	available := len(c.fleet.Available())
	var spread Draw
	if p.drawsOthers {
		spread = draw
	}
	answered := c.locals.answer(
		now, replica, ownInFlight, available, p.probeIntervalMinNS, spread, &p.report)
	switch answered {
	case answeredHere:
		c.counters.ProbesLocal++
		if c.fleet.IsAvailable(replica) {
			if !p.drawsOthers {
				c.estimated.record(p.report.RIF)
			}
			from := subject{replica: replica, ownInFlight: ownInFlight, local: true}
			p.kept.handleReport(now, from, &p.report, c, draw)
		}
	case unansweredInterval:
		c.counters.ProbesSkippedInterval++
	}
	if c.settings.LocalOnly {
		return Probe{}, false
	}
	// A real probe that is not sent does not count as skipped: this one was answered here.
	intervalNS := max(p.probeIntervalMinNS, unprobedIntervalNS)
	probe, why := p.probing.send(now, replica, &c.fleet, intervalNS)
	return probe, why == skippedNot
}

func (p *probed) expireProbes(now Instant) {
	if p.probing.nextDeadline > now {
		return
	}
	p.lost = p.probing.expire(now, &p.client.fleet, p.lost[:0])
	// By name, not by the slots that the probes happened to have.
	slices.SortFunc(p.lost, compareReplicas)
	for _, replica := range p.lost {
		p.probeLost(now, replica)
	}
}

func (p *probed) probeLost(now Instant, replica ReplicaID) {
	c := &p.client
	c.counters.ProbesLost++
	s := c.fleet.standings.Find(replica)
	if s == nil {
		return
	}
	probes := s.lastProbe.lost(now)
	if p.answersNormally(replica, probes) {
		p.probing.backOff.missed(&s.lastProbe.ends)
	}
	p.fleetChanged(replica, c.fleet.probeLost(now, replica, probes))
	if c.locals.lost(now, replica, probes, &c.fleet) {
		// Its last report from before the silence must not hold forever.
		p.fleetChanged(replica, c.fleet.setDraining(replica, false))
		p.forgetIfDeaf()
	}
}

// answersNormally reports whether a lost probe, the last of these, may be the fault of something
// other than the replica: it has answered before, and has not stayed silent while others answered.
func (p *probed) answersNormally(replica ReplicaID, probes lostProbes) bool {
	_, answered := probes.answeredAt.get()
	isAlone := probes.inARow > lostInARowMin && p.client.fleet.anyAnsweredSince(probes.since)
	return answered && !isAlone && !p.client.locals.isUnprobed(replica)
}

// forgetIfDeaf forgets reports, and estimates from them, when no available replica answers any
// more: unprobed replicas must not be compared with them.
func (p *probed) forgetIfDeaf() {
	c := &p.client
	isDeaf := !c.fleet.InPanic() && c.locals.unprobedAvailable == len(c.fleet.Available())
	if isDeaf && (p.drawsOthers || !c.reported.isEmpty()) {
		c.reported.clear()
		c.estimated.clear()
		c.locals.forgetAnswers()
	}
}

// probeRate returns the rate that wantQueryProbes uses now, for inspection. It is absent if queries
// trigger no probes.
func (p *probed) probeRate() Optional[Millionths] {
	wanted := p.kept.probeRate(&p.client)
	if wanted == 0 || p.client.settings.LocalOnly {
		return Optional[Millionths]{}
	}
	return Some(p.probing.backOff.lowered(wanted))
}

// wantQueryProbes adds a query's probes: fewer than configured while probing shows an overload.
func (p *probed) wantQueryProbes(now Instant) {
	wanted := p.kept.probeRate(&p.client)
	p.probing.backOff.tick(now)
	rate := p.probing.backOff.lowered(wanted)
	p.client.probeShare = p.probing.backOff.share
	if rate < wanted {
		p.client.counters.ProbesBackedOff += uint64(p.probesLeftOut.step(wanted.less(rate)))
	}
	p.wantProbes(p.probesOwed.step(rate))
}

func (p *probed) wantProbes(count uint32) {
	if !p.probing.want(count) {
		p.client.counters.ProbesSkippedCap += uint64(count)
	}
}
