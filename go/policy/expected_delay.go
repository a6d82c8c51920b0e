package policy

import (
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// differenceMax is the largest factor by which a replica counts as slower, or faster, than the
	// mean.
	differenceMax = 4
	// dearerMax is the largest factor by which the queries of a replica with a capacity count as
	// dearer than the mean.
	dearerMax = 1_000
	// carriedMin is the reports with responses, per query, from which on fewer probes are sent: with
	// half a probe, four reports in three queries, which are enough. Fewer make small or unequal
	// fleets perform worse.
	carriedMin = One / 6 * 5
	// probesOfMostMin is the fewest probes per query of a client that sends most of them, to notice
	// others.
	probesOfMostMin = One / 2
)

// expectedDelay is the rule of shortest_expected_delay: it picks by how long a query is expected to
// take, and by what it costs the others.
//
//	u     = requests in flight, with this one, as a share of the usable capacity
//	score = time of a query alone × times longer(u)
//
// Each replica counts with what it reports, so one fleet may be mixed:
//
//	it reports                        its capacity            the time of a query alone
//	capacity and cost                 as reported             the cost
//	neither, and others do            the mean of the others  mean cost × mean latency / theirs
//	neither, and no replica does      1                       its mean latency
//	no answer to probes               as in the last two rows, from this client's own queries
//
// With known capacities, "times longer" has two factors. Of two replicas that delay no query, the
// emptier one is better. Beyond capacity, a query waits for the others and they wait for it. While
// no replica reports a capacity, each request in flight counts alike: the score is (RIF + 1) × mean
// latency. IPVS calls that rule shortest expected delay; here the weights are learned instead of
// configured.
//
// A replica whose latency or cost differs little from the mean of all counts as the mean, so equal
// replicas are compared by requests in flight alone. A replica that had more than its share of this
// client's recent queries counts as having a part of a query more. Of equals, the one whose last
// turn is longest ago is picked.
type expectedDelay struct {
	settings ShortestExpectedDelaySettings
	table    learnedTable
	// usual is the usual share of the capacity in use. While no capacity is known it is counted as 1.
	usual usual
}

// byLatency is how replicas are compared while none reports a capacity. Requests in flight include
// this one, and reports of little load count less with age.
var byLatency = &Comparison{
	Name:    "expected_delay",
	Formula: "expected delay = (requests in flight + turn surcharge) × mean latency",
	Factors: []Factor{
		requests("in_flight", "requests in flight", uint64(One)),
		microseconds("mean_latency_us", "mean latency", fine*1_000),
		requests("turn_surcharge", "turn surcharge", fine),
		microseconds("expected_delay_us", "expected delay", fine*1_000),
		count("last_turn", "last turn"),
	},
	Order:  []Step{{By: "expected_delay_us"}, {By: "last_turn"}},
	Equals: EqualsDraw,
}

// byCapacity is how they are compared while some do. The share in use is that of 85 % of the
// capacity. It includes this request and the turn surcharge, and reports of little load count less
// with age. "Times longer" follows from the share and the capacity.
var byCapacity = &Comparison{
	Name:    "capacity_in_use",
	Formula: "score = time alone × times longer(in use, capacity)",
	Factors: []Factor{
		requests("in_flight", "requests in flight", fine),
		requests("capacity", "capacity", oneRIF),
		share("in_use", "in use"),
		microseconds("alone_us", "time alone", fine*1_000),
		microseconds("score_us", "score", fine*1_000),
		count("last_turn", "last turn"),
	},
	Order:  []Step{{By: "score_us"}, {By: "last_turn"}},
	Equals: EqualsDraw,
}

// latestReport is a report, with derived values.
type latestReport struct {
	replica ReplicaID
	// local: it takes the place of an unprobed replica's answer. carried: it came with a response.
	local   bool
	carried bool
	rif     uint32
	// others is the number of queries that other clients have in flight there, or more.
	others uint32
	// The remaining values are 0 if it reports none.
	queryRateMillis  uint32
	capacityMilliRIF uint32
	latencyNS        uint64
	costNS           uint64
}

// latestLoad is the load of a replica at a pick.
type latestLoad struct {
	// inFlight is what other clients had in flight there when it reported, plus what this client has
	// there now, in 1/1024.
	inFlight uint64
	// ageNS is how old the report is.
	ageNS uint64
	// turn is its share of this client's recent queries.
	turn turn
}

// moment is what all replicas are compared by at one moment.
type moment struct {
	usual usualNow
	// byCapacity: some replica reports a capacity.
	byCapacity bool
}

func (e *expectedDelay) moment() moment {
	return moment{usual: e.usual.now(), byCapacity: e.table.knowsCapacity()}
}

// relative returns a value as a share of the mean. One within the band of it counts as the mean.
func relative(value, mean uint64, band Millionths) uint64 {
	if banded(value, mean, uint64(band)) == mean {
		return unit
	}
	return ints.MulDiv(value, unit, mean)
}

// latency returns the mean latency that a replica counts with, as a share of the mean of all.
func (e *expectedDelay) latency(l *learned) uint64 {
	latency, known := l.meanLatency()
	if !known {
		return unit
	}
	share := relative(latency, e.table.meanLatency(), e.settings.LatencyBand)
	return min(max(share, unit/differenceMax), unit*differenceMax)
}

// cost returns the cost that a replica with a known capacity counts with, as a share of the mean.
func (e *expectedDelay) cost(l *learned) uint64 {
	if l.costNS == 0 {
		return unit
	}
	share := relative(l.costNS, e.table.meanCostNS(), e.settings.CostBand)
	return min(max(share, 1), unit*dearerMax)
}

// inUse returns the share in use that a replica counts with: of little load, less with age, and
// with the turn surcharge.
func (m *moment) inUse(of *latestLoad, w *weight) uint64 {
	return m.usual.aged(w.share(of.inFlight+fine), of.ageNS) + w.share(of.turn.ahead)
}

// place returns the place of a replica: first the score; between equals, the one whose last turn is
// longest ago.
func (m *moment) place(of *latestLoad, w *weight) place {
	return place{
		first:  w.score(m.inUse(of, w), m.byCapacity),
		second: of.turn.last,
	}
}

// weight returns what a replica counts with, by what was learned of it, if other clients have this
// many queries in flight there or more.
func (e *expectedDelay) weight(l *learned, others uint32) weight {
	var w weight
	if l.capacityMilliRIF > 0 {
		w = weightWithCapacity(uint64(l.capacityMilliRIF), e.cost(l))
	} else if mean, known := e.table.capacities.mean(); known {
		w = weightWithCapacity(mean, e.latency(l))
	} else {
		w = weightWithoutCapacity(e.table.longRunning.counted(e.latency(l), unit))
	}
	inUse := w.share((uint64(others) + 1) * fine)
	w.scoreMin = w.score(inUse, e.table.knowsCapacity())
	return w
}

// handleReport takes in a report. It returns what its replica counts with now, and whether that has
// changed for all replicas.
func (e *expectedDelay) handleReport(now Instant, from *latestReport) (weight, bool) {
	knewCapacity := e.table.knowsCapacity()
	l := e.table.handleReport(now, from)
	ofAll := e.handleNewUnit(knewCapacity)
	w := e.weight(&l, from.others)
	e.usual.learn(w.share((uint64(from.rif)+1)*fine), from.latencyNS)
	return w, ofAll
}

// forget drops what the replica has reported. It returns whether what is known of all replicas has
// changed.
func (e *expectedDelay) forget(replica ReplicaID) bool {
	knewCapacity := e.table.knowsCapacity()
	e.table.forget(replica)
	return e.handleNewUnit(knewCapacity)
}

// handleNewUnit returns whether loads are in another unit than before: shares of a capacity, or
// requests.
func (e *expectedDelay) handleNewUnit(knewCapacity bool) bool {
	isNew := e.table.knowsCapacity() != knewCapacity
	if isNew {
		e.usual = usual{}
	}
	return isNew
}

// probeRate returns the probes per query, given that this many reports with a capacity come with
// the responses of each query, and whether most queries that replicas get are this client's.
func (e *expectedDelay) probeRate(carriedRate Millionths, sendsMost bool, of *PrequalSettings) Millionths {
	switch mean, known := e.table.capacities.mean(); {
	case known && mean < oneRIF:
		// Each query is more than a replica can carry, so a report is soon old.
		return of.ProbeRate
	case carriedRate >= carriedMin:
		return e.settings.ProbeRate
	case sendsMost:
		return min(of.ProbeRate, max(of.ProbeRateMin, probesOfMostMin))
	default:
		return of.ProbeRate
	}
}

func (e *expectedDelay) comparison() *Comparison {
	if e.table.knowsCapacity() {
		return byCapacity
	}
	return byLatency
}

// values returns the compared values of a replica.
func (e *expectedDelay) values(of *latestLoad, w *weight, m *moment) Values {
	inUse := m.inUse(of, w)
	alone, score := e.time(w.alone, 1), e.time(w.score(inUse, m.byCapacity), 2)
	if m.byCapacity {
		share := ints.MulDiv(inUse, uint64(One), unit)
		return valuesOf(of.inFlight, w.capacity, share, alone, score, of.turn.last)
	}
	inFlight := ints.MulDiv(ints.Sub(inUse, w.share(of.turn.ahead)), uint64(One), unit)
	return valuesOf(inFlight, alone, of.turn.ahead, score, of.turn.last)
}

// time returns the time that 1 in a product of this many units stands for, in 1/1024 ns.
func (e *expectedDelay) time(share uint64, units uint) uint64 {
	mean := e.table.meanLatency()
	if e.table.knowsCapacity() {
		mean = e.table.meanCostNS() * fine
	}
	return mulShift(mean, share, units*unitBits)
}

// reported returns the capacity, in thousandths, and the cost that a replica counts with.
func (e *expectedDelay) reported(replica ReplicaID) (capacity Optional[uint32], cost Optional[time.Duration]) {
	l := e.table.of(replica)
	if l.capacityMilliRIF > 0 {
		capacity = Some(l.capacityMilliRIF)
	}
	if l.costNS > 0 {
		cost = Some(time.Duration(l.costNS))
	}
	return capacity, cost
}
