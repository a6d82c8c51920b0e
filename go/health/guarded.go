package health

import (
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	// tickNS is the interval between settlements of standings.
	tickNS = 100_000_000
	// savedMax is the number of trials that may be saved up.
	savedMax = 3
)

// guarded is a policy that chooses among healthy replicas, each in proportion to its share.
type guarded struct {
	policy   policy.Policy
	settings Settings
	records  policy.ReplicaMap[*record]
	members  policy.ReplicaSet
	// out are the replicas that are out.
	out []policy.ReplicaID
	// offered and offeredOut are how many members, and how many of the replicas that are out, the
	// caller offers.
	offered    int
	offeredOut int
	shares     shares
	// hasChanged: a share has changed since shares was built.
	hasChanged bool
	trials     tokens
	// hasPassing: a replica that is out may have passed a trial and be due for the next.
	hasPassing bool

	// These are the values of all compared replicas. shown is the sum of their samples.
	rates        others[uint32]
	ratesJustNow others[uint32]
	shown        sample
	latencies    others[uint64]
	paces        others[uint64]
	peaks        others[uint64]

	unhurried   unhurried
	unhurriedNS uint64
	// fleetSuccess is the success rate of the median replica in the choice, the upper median of two.
	// It is assumed for replicas without data. The lower one of two could be the failing replica
	// itself.
	fleetSuccess uint32
	latest       policy.Instant
	tickAt       policy.Instant
	bucket       uint64
	bucketNS     uint64
	inFlight     uint64
	// stays is the number of stays so far; each join starts one.
	stays uint32
	// hasServed: the fleet has had queries, so a replica that joins now is new to it.
	hasServed bool
	counters  policy.HealthCounters
	// query is the query that is passed on, kept here so that a choice does not allocate.
	query policy.Query
}

// newGuarded puts health around a policy with an empty fleet.
func newGuarded(p policy.Policy, settings Settings) *guarded {
	window := 10 * time.Second
	if settings.Errors != nil {
		window = settings.Errors.Window
	}
	return &guarded{
		policy:       p,
		settings:     settings,
		shares:       newShares(),
		trials:       newTokens(settings.Trials, savedMax),
		unhurried:    newUnhurried(),
		fleetSuccess: whole,
		bucketNS:     spanNS(window) / windowBuckets,
	}
}

// find returns the record of a known replica, or nil.
func (g *guarded) find(replica policy.ReplicaID) *record {
	if found := g.records.Find(replica); found != nil {
		return *found
	}
	return nil
}

// tick advances the clock, does what is due, and returns the time.
func (g *guarded) tick(now policy.Instant) policy.Instant {
	g.latest = max(g.latest, now)
	if g.latest >= g.tickAt {
		g.settle()
	}
	return g.latest
}

// settle settles the standing of each replica.
func (g *guarded) settle() {
	now := g.latest
	g.tickAt = after(now, tickNS)
	g.bucket = uint64(now) / g.bucketNS
	g.rates.clear()
	g.ratesJustNow.clear()
	g.latencies.clear()
	g.paces.clear()
	g.peaks.clear()
	g.shown = sample{}
	g.hasPassing = false
	for _, replica := range g.members.Members() {
		r := g.find(replica)
		if r == nil {
			continue
		}
		r.tick(now)
		r.estimate(now, g.bucket, g.fleetSuccess)
		r.compare(g.bucket, g.fleetSuccess)
		g.hasPassing = g.hasPassing || r.course.isOut() && r.course.isPassing()
		g.shown.add(r.compared.shown)
		g.rates.add(r.compared.success)
		g.ratesJustNow.add(r.compared.successJustNow)
		g.latencies.add(r.comparedLatency())
		g.paces.add(r.comparedPace(now))
		g.peaks.add(r.comparedPeak())
	}
	// The medians need all values first, and the verdicts need the medians, so there are two passes.
	g.rates.settle()
	g.ratesJustNow.settle()
	g.latencies.settle()
	g.paces.settle()
	g.peaks.settle()
	g.fleetSuccess = g.rates.upperMedian().Or(whole)
	g.unhurriedNS = g.unhurried.note(now, g.latencies.median)
	for _, replica := range g.members.Members() {
		if r := g.find(replica); r != nil {
			o := g.others(r)
			g.carryOut(replica, judge(now, r, &o, &g.settings))
			g.judgeTrial(replica)
		}
	}
	g.enforceLimit()
	g.refresh()
}

// others returns what a replica is compared with.
func (g *guarded) others(r *record) reference {
	success := g.rates.medianWithout(r.compared.success)
	// Replicas that start to fail together do not do so at exactly the same time.
	justNow := g.ratesJustNow.medianWithout(r.compared.successJustNow)
	success.Value = min(success.Value, justNow.Or(success.Value))
	return reference{
		success:     success,
		shown:       g.shown.without(r.compared.shown),
		latency:     g.latencies.medianWithout(r.comparedLatency()),
		pace:        g.paces.medianWithout(r.comparedPace(g.latest)),
		peak:        g.peaks.medianWithout(r.comparedPeak()),
		unhurriedNS: g.unhurriedNS,
	}
}

// carryOut does to a replica what was judged.
func (g *guarded) carryOut(replica policy.ReplicaID, v verdict) {
	switch v {
	case stay:
	case leaveForErrors, leaveForSlowness, leaveForSilence:
		g.leave(replica, cause(v-leaveForErrors), false)
	case comeBack:
		g.comeBack(replica)
	case rise:
		if r := g.find(replica); r != nil {
			r.course.rise(g.latest)
			g.counters.Readmissions++
			g.admit(replica)
		}
	}
}
