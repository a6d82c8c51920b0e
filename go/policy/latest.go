package policy

import (
	"iter"
	"math"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// latest keeps the latest report of every replica, for the rule of shortest_expected_delay.
//
// If the pool of Prequal would hold half of the fleet or more, its choice herds: it uses the same
// reports again and again, and a replica that once looked slow gets no queries that could correct
// that. This keeps one report of each replica for as long as it is fresh, and corrects it at each
// pick: RIF is what others had in flight when it reported, plus what this client has now, so that
// queries that have ended no longer count, plus what others are assumed to have sent there since,
// as this client has.
//
// An unprobed replica has no report. It counts with an estimate that has the spread of reports: if
// all are alike, the lowest of all is found among the unprobed as often as there are of them. So a
// few unprobed replicas take nothing from what the others report, and where all are unprobed only
// the client's own counts decide.
//
// Only the newest reports are compared, and some further ones while few come or most queries are
// this client's own.
type latest struct {
	rule        expectedDelay
	rows        latestRows
	reportAgeNS uint64
	// expiredBefore is the time since which reports were fresh at the last choice.
	expiredBefore Instant
	// own is what this client has in flight at a replica, in 1/1024, by recent reports. It is only
	// noted while a replica is unprobed.
	own recentValues
	// carried are reports that come with responses.
	carried  reportYield
	further  further
	ownShare ownShare
}

func newShortestExpectedDelay(settings *Settings) Policy {
	kept := &latest{
		rule:        expectedDelay{settings: settings.ShortestExpectedDelay},
		reportAgeNS: spanNS(settings.Prequal.ReportAgeMax),
		carried:     reportYield{configured: One},
		further:     further{enoughUntil: furtherQueriesMax},
	}
	policy := newProbed(Default, kept, &settings.Prequal)
	policy.drawsOthers = true
	policy.withoutReports = ReasonLeastLoaded
	return policy
}

// expire removes reports that have reached their maximum age.
func (l *latest) expire(now Instant, client *client) {
	if since := l.freshSince(now); since > 0 {
		l.expiredBefore = since
		client.counters.RemovedExpired += uint64(l.rows.expire(since))
	}
}

// freshSince returns the time since which reports are fresh; 0 if none can be older.
func (l *latest) freshSince(now Instant) Instant {
	if uint64(now) < l.reportAgeNS {
		return 0
	}
	return (now - Instant(l.reportAgeNS)).plus(1)
}

// candidates returns the reports to choose from: the newest, and the further ones. For a query that
// may go to a few replicas only, their reports, however many are newer.
func (l *latest) candidates(query *Query) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		for nth := range l.candidatesMax(query) {
			if row := l.candidate(query, nth); row != nil && query.Allows(row.replica) && !yield(row) {
				return
			}
		}
	}
}

// candidatesMax returns the number of candidates if all are fresh.
func (l *latest) candidatesMax(query *Query) int {
	if len(query.Among) > 0 {
		return len(query.Among)
	}
	newest := len(l.rows.newest())
	return newest + l.further.count(newest, len(l.rows.all))
}

// candidate returns the nth candidate, or nil if that is not fresh.
func (l *latest) candidate(query *Query, nth int) *row {
	if len(query.Among) > 0 {
		return l.fresh(query.Among[nth])
	}
	newest := len(l.rows.newest())
	if nth < newest {
		return &l.rows.all[nth]
	}
	row := &l.rows.all[l.further.place(nth-newest, newest, len(l.rows.all))]
	if row.receivedAt < l.expiredBefore {
		return nil
	}
	return row
}

// fresh returns the report of a replica, or nil if it has no fresh one. Reports beyond the newest
// are not searched for expired ones, so their age is checked here.
func (l *latest) fresh(replica ReplicaID) *row {
	if row := l.rows.find(replica); row != nil && row.receivedAt >= l.expiredBefore {
		return row
	}
	return nil
}

// sendsMost is whether this client sends most of the queries. The queries of replicas that answer
// no probes are in no report, so it is not known then.
func (l *latest) sendsMost(client *client) bool {
	return l.ownShare.isMost() && client.locals.unprobedAvailable == 0
}

// survey has the values that all candidates for a query share.
type survey struct {
	moment moment
	// ownUsual is what this client usually has in flight at a replica, with one more, in 1/1024. It
	// is used for unprobed candidates.
	ownUsual uint64
	// othersAlike is how many queries of others count as sent alike with each own one since a report,
	// in 1/1024.
	othersAlike uint64
}

func (l *latest) survey(client *client) survey {
	s := survey{moment: l.rule.moment(), othersAlike: l.ownShare.othersAlike()}
	if client.locals.unprobedAvailable > 0 {
		s.ownUsual = l.own.mean() + fine
	}
	return s
}

// inFlight returns the RIF that a report counts with, in 1/1024.
func (s *survey) inFlight(row *row, ownInFlight uint32) uint64 {
	own, others := uint64(ownInFlight)*fine, uint64(row.others)*fine
	if row.local {
		// Other clients have more where this one has more.
		others = min(ints.MulDiv(others, own+fine, s.ownUsual), math.MaxUint32*fine)
	}
	since := uint64(ownInFlight - min(row.own, ownInFlight))
	return own + others + since*s.othersAlike
}

// load returns the load of a candidate.
func (s *survey) load(now Instant, row *row, fleet *Fleet) latestLoad {
	ownInFlight, turn := fleet.sentTo(row.replica)
	return latestLoad{
		inFlight: s.inFlight(row, ownInFlight),
		ageNS:    now.nsSince(row.receivedAt),
		turn:     turn,
	}
}

// place returns the place of a candidate in a choice.
func (s *survey) place(now Instant, row *row, fleet *Fleet) place {
	load := s.load(now, row, fleet)
	return s.moment.place(&load, &row.weight).clamped(fleetPlaces)
}

// passTurn passes the turn of a replica that the query spares: the one that it would go to if it
// spared none. Otherwise that replica would catch up on what it is spared.
func (l *latest) passTurn(now Instant, query *Query, client *client, draw Draw) {
	if !query.sparesSome() {
		return
	}
	l.expire(now, client)
	// Without reports it is no replica's turn.
	if len(l.rows.all) == 0 {
		return
	}
	free := *query
	free.Avoid = nil
	if turn, any := l.choose(now, &free, client, draw); any {
		client.fleet.passTurn(query, turn.replica)
	}
}

func (l *latest) choose(now Instant, query *Query, client *client, draw Draw) (choice, bool) {
	l.expire(now, client)
	if found, any := l.best(now, query, client, draw); any {
		return found, true
	}
	return fewestInFlight(now, query, client, draw)
}

// best returns the best of the candidates, if there is one. Of equals, one is drawn. A replica
// without a fresh report is left out while there is another: one that answers no probes, and is not
// unprobed yet, may be gone.
func (l *latest) best(now Instant, query *Query, client *client, draw Draw) (choice, bool) {
	survey := l.survey(client)
	if len(query.Among) > 0 || l.further.areNeeded() && len(l.rows.newest()) < len(l.rows.all) {
		return l.bestOfFew(now, query, &survey, client, draw)
	}
	fleet := &client.fleet
	rows := l.rows.newest()
	var lowest lowestTwo
	// The rows that can be lowest come first: most others need no closer look.
	first, second, restMin := likely(rows)
	for _, index := range [...]int{first, second} {
		if index >= 0 && query.Allows(rows[index].replica) {
			lowest.offer(index, survey.place(now, &rows[index], fleet))
		}
	}
	if lowest.mayOffer(restMin) {
		for index := range rows {
			row := &rows[index]
			if index != first && index != second && lowest.mayOffer(row.weight.scoreMin) && query.Allows(row.replica) {
				lowest.offer(index, survey.place(now, row, fleet))
			}
		}
	}
	if lowest.count == 0 {
		return choice{}, false
	}
	chosen, runnerUp := lowest.indexes[0], lowest.indexes[1]
	if lowest.count > 1 && lowest.places[0] == lowest.places[1] {
		drawn, _ := best(len(rows), func(index int) (place, bool) {
			row := &rows[index]
			if !query.Allows(row.replica) {
				return place{}, false
			}
			return survey.place(now, row, fleet), true
		}, draw)
		chosen, runnerUp = drawn.index, drawn.runnerUp
	}
	candidates := len(rows)
	if !query.allowsAll() {
		candidates = 0
		for index := range rows {
			candidates += number(query.Allows(rows[index].replica))
		}
	}
	found := choice{
		replica:    rows[chosen].replica,
		reason:     ReasonLowestScore,
		candidates: uint16(candidates),
		chosen:     Some(survey.view(now, &rows[chosen], fleet)),
	}
	if lowest.count > 1 {
		found.runnerUp = Some(rows[runnerUp].replica)
	}
	return found, true
}

// bestOfFew is like best, by a look at each candidate: for a query that may go to a few replicas
// only, and while few reports come.
func (l *latest) bestOfFew(
	now Instant, query *Query, survey *survey, client *client, draw Draw,
) (choice, bool) {
	fleet := &client.fleet
	candidates := 0
	best, any := best(l.candidatesMax(query), func(nth int) (place, bool) {
		row := l.candidate(query, nth)
		if row == nil || !query.Allows(row.replica) {
			return place{}, false
		}
		return survey.place(now, row, fleet), true
	}, draw)
	if !any {
		return choice{}, false
	}
	for range l.candidates(query) {
		candidates++
	}
	chosen := l.candidate(query, best.index)
	found := choice{
		replica:    chosen.replica,
		reason:     ReasonLowestScore,
		candidates: uint16(candidates),
		chosen:     Some(survey.view(now, chosen, fleet)),
	}
	if best.runnerUp >= 0 {
		found.runnerUp = Some(l.candidate(query, best.runnerUp).replica)
	}
	return found, true
}

// lowestTwo are the two lowest of some places. Of equal ones, that with the lower index is lower.
type lowestTwo struct {
	// count is how many there are, at most 2.
	count   int
	indexes [2]int
	places  [2]place
}

// mayOffer reports whether a place that begins with this, or more, can be one of the two lowest.
func (l *lowestTwo) mayOffer(first uint64) bool { return l.count < 2 || first <= l.places[1].first }

func (l *lowestTwo) offer(index int, at place) {
	isLower := func(than int) bool {
		return than >= l.count || at.less(l.places[than]) ||
			at == l.places[than] && index < l.indexes[than]
	}
	switch {
	case isLower(0):
		l.indexes[1], l.places[1] = l.indexes[0], l.places[0]
		l.indexes[0], l.places[0] = index, at
	case isLower(1):
		l.indexes[1], l.places[1] = index, at
	default:
		return
	}
	l.count = min(l.count+1, 2)
}

// likely returns the indexes of the two rows with the lowest possible scores, or −1, and the lowest
// possible score of the others.
func likely(rows []row) (first, second int, restMin uint64) {
	first, second, restMin = -1, -1, math.MaxUint64
	lowest, next := uint64(math.MaxUint64), uint64(math.MaxUint64)
	for index := range rows {
		switch score := rows[index].weight.scoreMin; {
		case score < lowest:
			restMin = next
			second, next = first, lowest
			first, lowest = index, score
		case score < next:
			restMin = next
			second, next = index, score
		case score < restMin:
			restMin = score
		}
	}
	return first, second, restMin
}

func (l *latest) explain(now Instant, query *Query, client *client, explanation *Explanation) {
	l.expire(now, client)
	isAny := false
	for range l.candidates(query) {
		isAny = true
		break
	}
	if !isAny {
		explainFewestInFlight(now, query, client, explanation)
		return
	}
	survey := l.survey(client)
	explanation.compare(l.rule.comparison(), Values{})
	// This includes replicas that the query has tried: they are recorded, and not chosen.
	for row := range l.candidates(&Query{Among: query.Among}) {
		load := survey.load(now, row, &client.fleet)
		candidate := Candidate{
			Replica:  row.replica,
			Report:   Some(survey.view(now, row, &client.fleet)),
			InFlight: client.fleet.InFlight(row.replica),
			Values:   l.rule.values(&load, &row.weight, &survey.moment),
			Avoided:  !query.Allows(row.replica),
			place:    survey.moment.place(&load, &row.weight),
		}
		candidate.CapacityMilliRIF, candidate.Cost = l.rule.reported(row.replica)
		explanation.consider(candidate)
	}
}

func (l *latest) chargePinned(Instant, ReplicaID, *client) Optional[uint32] {
	return Optional[uint32]{}
}

func (l *latest) chargeSiblings(replica ReplicaID, queries uint32) {
	if row := l.rows.find(replica); row != nil {
		row.others = ints.Add(row.others, queries)
	}
}

func (l *latest) querySent(query *Query, _ Optional[uint32], client *client, _ Draw) {
	if query.Attempt == AttemptFirst {
		l.carried.query()
	}
	if client.fleet.sent > l.further.enoughUntil {
		l.further.pass(len(l.rows.newest()), len(l.rows.all))
	}
}

func (l *latest) handleReport(now Instant, from subject, report *LoadReport, client *client, _ Draw) {
	if client.locals.unprobedAvailable > 0 {
		l.own.record(uint64(from.ownInFlight) * fine)
	}
	l.keep(now, from, report, spanNS(report.Latency), false, client)
}

func (l *latest) handleCarried(now Instant, replica ReplicaID, report *LoadReport, client *client) {
	if !report.CapacityMilliRIF.Known {
		return
	}
	l.carried.report()
	latencyNS := spanNS(report.Latency)
	// Few responses carry a latency.
	if row := l.rows.find(replica); latencyNS == 0 && row != nil {
		latencyNS = row.latencyNS
	}
	from := subject{replica: replica, ownInFlight: client.fleet.InFlight(replica)}
	l.keep(now, from, report, latencyNS, true, client)
}

// keep makes a report the latest of its replica.
func (l *latest) keep(
	now Instant, from subject, report *LoadReport, latencyNS uint64, carried bool, client *client,
) {
	if !carried {
		l.ownShare.reported(now, report.QueryRateMillis, len(client.fleet.Available()))
	}
	l.further.reported(client.fleet.sent, l.sendsMost(client))
	others := ints.Sub(report.RIF, from.ownInFlight)
	reported := latestReport{
		replica:          from.replica,
		local:            from.local,
		carried:          carried,
		rif:              max(report.RIF, from.ownInFlight),
		others:           others,
		latencyNS:        latencyNS,
		queryRateMillis:  report.QueryRateMillis.Or(0),
		capacityMilliRIF: report.CapacityMilliRIF.Or(0),
		costNS:           spanNS(report.Cost.Or(0)),
	}
	if from.local {
		reported.others = 0
	}
	weight, ofAll := l.rule.handleReport(now, &reported)
	replaces := l.rows.insert(row{
		replica:    from.replica,
		receivedAt: now,
		latencyNS:  latencyNS,
		others:     others,
		own:        from.ownInFlight,
		local:      from.local,
		weight:     weight,
	})
	client.counters.Replaced += uint64(number(replaces))
	if ofAll {
		l.weighAll()
	}
}

// weighAll lets each report count with what is known of its replica now.
func (l *latest) weighAll() {
	for place := range l.rows.all {
		l.weigh(&l.rows.all[place])
	}
}

func (l *latest) weigh(row *row) {
	learned := l.rule.table.of(row.replica)
	row.weight = l.rule.weight(&learned, row.othersMin())
}

// handleHead counts an answer, and takes in the latency of a query to an unprobed replica, which is
// all that is known of its speed.
func (l *latest) handleHead(now Instant, replica ReplicaID, head head) {
	l.ownShare.queryOver(head.outcome)
	if row := l.rows.find(replica); row != nil && row.local {
		l.rule.table.handleOwnLatency(now, replica, head.ns, head.failed())
		l.weigh(row)
	}
}

func (l *latest) probeRate(client *client) Millionths {
	return l.rule.probeRate(l.carried.rate, l.sendsMost(client), &client.settings)
}

func (l *latest) forget(replica ReplicaID) {
	l.rows.remove(replica)
	if l.rule.forget(replica) {
		l.weighAll()
	}
}

func (l *latest) addReplica(replica ReplicaID) {
	l.rows.reserve(replica)
	l.rule.table.add(replica)
}

func (l *latest) fleetChanged(*client) {}
