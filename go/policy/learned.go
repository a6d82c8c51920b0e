package policy

import (
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// learnedMin is the fewest reports of a mean latency. It counts from then on.
	learnedMin = 8
	// learnedMemoryNS is the time constant of means. The values in them are as old, on average, as
	// the queries of a reported rate, so both sides of Little's law are of one time.
	learnedMemoryNS = ratesWindowNS / 2
	// ownQueries is the number of queries in the mean latency of an unprobed replica: chance moves
	// it by 18 %.
	ownQueries = 16
	// ownPresumed is the number of queries as which the mean of the other replicas counts before the
	// first own one.
	ownPresumed = 4
	// ownMemoryNS: an unprobed replica is tried again as one of which nothing is known this long
	// after the last of this client's own queries to it has ended.
	ownMemoryNS = uint64(30 * time.Second)
	// latencyMaxMeans is the largest mean latency that is remembered, in means of the others. More
	// makes no difference, and would keep a replica that stood still, or had a long queue, out for
	// long after it is well.
	latencyMaxMeans = 4
	// latencyMaxNS counts for latencies and costs of an hour or more, so that no sum overflows.
	latencyMaxNS = 1 << 42
	latencyMax   = latencyMaxNS * fine
	// rifParts is the number of parts of a request in mean RIF.
	rifParts = 1 << rifBits
	rifBits  = 20
	// rateNS is a thousand seconds in nanoseconds: reported rates are in thousandths.
	rateNS = 1_000_000_000_000
	// unknownNS is a mean while nothing is reported. All replicas are then equal, and the value does
	// not matter.
	unknownNS = 1_000_000
)

// learned is what was learned of a replica. The zero value is nothing.
//
// The mean latency is that of Little's law: requests in flight, on average, divided by finished
// queries per second. Other means of what replicas report depend on the traffic that they decide. A
// replica with little traffic has old samples, and while nothing ends there it reports how long
// that has lasted. So it looks slow, and gets even less traffic. By Little's law each query counts
// once, however long its report lasts. A replica that reports no query rate counts with the mean of
// the latencies that it reports.
type learned struct {
	// capacityMilliRIF is 0 if it reports none.
	capacityMilliRIF uint32
	// reports counts those in these means, up to learnedMin. For an unprobed replica, queries in the
	// mean latency.
	reports uint32
	// costNS is 0 if it reports none, or no capacity.
	costNS uint64
	// latency is the mean latency, in 1/1024 ns.
	latency uint64
	// rif is the mean of the reported RIF, in rifParts.
	rif uint64
	// since is when the first of these reports came, and at when the last did.
	since Instant
	at    Instant
	// own: the mean latency is that of this client's own queries. The mean RIF then is none.
	own bool
}

// meanLatency returns the mean latency, in 1/1024 ns, if it counts yet.
func (l *learned) meanLatency() (uint64, bool) {
	fewest := uint32(learnedMin)
	if l.own {
		fewest = 1
	}
	return l.latency, l.reports >= fewest
}

// forgetLatency: no query has ended there for long. It is tried again as one of which nothing is
// known.
func (l *learned) forgetLatency() { l.own, l.reports, l.latency = false, 0, 0 }

// learnOwn takes in the latency of this client's own query, of an unprobed replica. The others are
// as in learn.
func (l *learned) learnOwn(now Instant, latencyNS uint64, others sum) {
	l.own = true
	l.since, l.at = now, now
	latency := min(ints.Mul(latencyNS, fine), rememberedMost(others), latencyMax)
	if l.reports == 0 {
		// A client has few queries of its own, and a slow replica must not wait for eight.
		l.reports = ownPresumed
		l.latency = latency
		if mean, known := others.mean(); known {
			l.latency = mean * fine
		}
	}
	l.reports = min(l.reports+1, ownQueries)
	l.latency = follow(l.latency, latency, uint64(l.reports))
}

// learn takes in a report. The others are the mean latencies of the other replicas.
func (l *learned) learn(now Instant, from *latestReport, others sum) {
	rate := uint64(from.queryRateMillis)
	if from.latencyNS == 0 && rate == 0 {
		l.forgetLatency()
		return
	}
	if l.own && rate > 0 {
		// The replica answers now. Its mean latency goes on from that of the own queries.
		l.own = false
		l.reports = learnedMin
		l.rif = ints.MulDiv(l.latency, rifParts, queryInterval(rate))
	}
	var parts uint64
	if l.reports < learnedMin {
		if l.reports == 0 {
			l.since = now
		}
		l.reports++
		parts = uint64(l.reports)
	} else {
		// The whole time since its first report counts equally until the memory is full. Otherwise
		// the first few reports would be half of it for long. A report right after another adds
		// almost nothing, since no time has passed.
		passedNS := now.nsSince(l.at)
		if passedNS == 0 {
			return
		}
		rememberedNS := min(learnedMemoryNS, l.at.nsSince(l.since))
		parts = max(learnedMin, rememberedNS/passedNS+1)
	}
	l.at = now
	l.rif = follow(l.rif, uint64(from.rif)*rifParts, parts)
	if rate == 0 {
		newest := min(from.latencyNS, latencyMaxNS) * fine
		l.latency = follow(l.latency, atMostRemembered(newest, others), parts)
		return
	}
	interval := queryInterval(rate)
	latency := min(max(mulShift(l.rif, interval, rifBits), 1), latencyMax)
	l.latency = atMostRemembered(latency, others)
	if l.latency < latency {
		l.rif = ints.MulDiv(l.latency, rifParts, interval)
	}
}

// rememberedMost returns the largest mean latency that is remembered, in 1/1024 ns.
func rememberedMost(others sum) uint64 {
	if mean, known := others.mean(); known {
		return ints.Mul(mean, fine*latencyMaxMeans)
	}
	return latencyMax
}

// atMostRemembered returns a latency of at most latencyMax, or the largest that is remembered.
func atMostRemembered(latency uint64, others sum) uint64 {
	// Nearly all latencies are that low. A multiplication shows it, without the mean of the others.
	meanMinNS := latency/(fine*latencyMaxMeans) + 1
	if meanMinNS*others.count < others.sum {
		return latency
	}
	return min(latency, rememberedMost(others))
}

// queryInterval returns the time from one query to the next at this rate, in 1/1024 ns.
func queryInterval(rateMillis uint64) uint64 { return rateNS * fine / max(rateMillis, 1) }

// sum is a sum over some replicas, which is kept as their values change. The zero value is over
// none.
type sum struct {
	count uint64
	sum   uint64
}

// replace counts a replica with another value than before; 0 is none.
func (s *sum) replace(before, after uint64) {
	s.count += uint64(number(after > 0) - number(before > 0))
	s.sum += after - before
}

// plus returns the sum over the replicas of both.
func (s sum) plus(other sum) sum { return sum{s.count + other.count, s.sum + other.sum} }

func (s sum) mean() (uint64, bool) {
	if s.count == 0 {
		return 0, false
	}
	return s.sum / s.count, true
}

// learnedTable is what was learned of all replicas.
type learnedTable struct {
	replicas ReplicaMap[learned]
	// latencies are the mean latencies of replicas that report no capacity, and of those that do. In
	// nanoseconds: the sum over a whole fleet fits.
	latencies   [2]sum
	capacities  sum
	costsNS     sum
	longRunning longRunning
}

func (t *learnedTable) add(replica ReplicaID) { t.replicas.Set(replica, learned{}) }

// of returns what was learned of this replica.
func (t *learnedTable) of(replica ReplicaID) learned {
	if l := t.replicas.Find(replica); l != nil {
		return *l
	}
	return learned{}
}

func (t *learnedTable) forget(replica ReplicaID) {
	if l := t.replicas.Find(replica); l != nil {
		t.exclude(l)
		*l = learned{}
	}
}

// handleReport takes in a report. It returns what is learned of its replica now.
func (t *learnedTable) handleReport(now Instant, from *latestReport) learned {
	l := t.replicas.Find(from.replica)
	if l == nil {
		return learned{}
	}
	t.exclude(l)
	others := t.allLatencies()
	switch {
	case from.carried:
		// Only replicas that were picked send reports with responses.
	case !from.local:
		l.learn(now, from, others)
	case now.nsSince(l.at) >= ownMemoryNS:
		// This client's own latencies count one by one.
		l.forgetLatency()
	}
	l.capacityMilliRIF = from.capacityMilliRIF
	l.costNS = 0
	if from.capacityMilliRIF > 0 {
		l.costNS = min(from.costNS, latencyMaxNS)
	}
	t.include(l)
	isOfProbe := !from.carried && !from.local && from.latencyNS > 0 && from.queryRateMillis > 0
	if latency, known := l.meanLatency(); known && isOfProbe {
		t.longRunning.learn(latency, from.latencyNS)
	}
	return *l
}

// handleOwnLatency takes in the latency of this client's own query to an unprobed replica.
func (t *learnedTable) handleOwnLatency(now Instant, replica ReplicaID, latencyNS uint64, failed bool) {
	l := t.replicas.Find(replica)
	if l == nil {
		return
	}
	t.exclude(l)
	others := t.allLatencies()
	// A failure may be fast. If it took long, as at a deadline, an answer would have taken longer.
	// Otherwise a replica that answers nothing in time would not count as slow.
	mean, _ := others.mean()
	if !failed || ints.Mul(latencyNS, fine) > max(l.latency, mean*fine) {
		l.learnOwn(now, latencyNS, others)
	}
	t.include(l)
}

// exclude takes a replica out of the sums, so that it can change.
func (t *learnedTable) exclude(l *learned) {
	t.latencies[l.kind()].replace(l.wholeLatencyNS(), 0)
	t.capacities.replace(uint64(l.capacityMilliRIF), 0)
	t.costsNS.replace(l.costNS, 0)
}

// include adds a replica to the sums.
func (t *learnedTable) include(l *learned) {
	t.latencies[l.kind()].replace(0, l.wholeLatencyNS())
	t.capacities.replace(0, uint64(l.capacityMilliRIF))
	t.costsNS.replace(0, l.costNS)
}

// kind returns the index of its sum in latencies.
func (l *learned) kind() int { return number(l.capacityMilliRIF > 0) }

// wholeLatencyNS returns the mean latency as whole nanoseconds, at least 1 unless it is 0, which is
// none.
func (l *learned) wholeLatencyNS() uint64 {
	return l.latency/fine + uint64(number(l.latency > 0 && l.latency < fine))
}

func (t *learnedTable) allLatencies() sum { return t.latencies[0].plus(t.latencies[1]) }

// knowsCapacity reports whether any replica reports a capacity.
func (t *learnedTable) knowsCapacity() bool { return t.capacities.count > 0 }

// meanLatency returns the mean of the mean latencies, in 1/1024 ns. Where any replica reports a
// capacity, it is only of those that do: it stands beside their mean cost.
func (t *learnedTable) meanLatency() uint64 {
	mean, known := t.latencies[1].mean()
	if !known {
		mean, known = t.allLatencies().mean()
	}
	if !known {
		mean = unknownNS
	}
	return mean * fine
}

// meanCostNS returns the mean cost.
func (t *learnedTable) meanCostNS() uint64 {
	if mean, known := t.costsNS.mean(); known {
		return mean
	}
	return unknownNS
}
