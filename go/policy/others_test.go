package policy

import (
	"math"
	"testing"
	"time"
)

// noted returns what is known of others after reports of these RIFs, each at this rate, where eight
// of this client's queries have been answered in two seconds.
func noted(rateMillis Optional[uint32], rifs ...uint32) *otherClients {
	var others otherClients
	others.read(0)
	for range 8 {
		others.queryAnswered()
	}
	others.read(2_000 * ms)
	for _, rif := range rifs {
		others.note(rif, 1)
		others.noteRate(&LoadReport{QueryRateMillis: rateMillis})
	}
	return &others
}

func TestLoadOfOthersIsEstimatedByLittlesLaw(t *testing.T) {
	// In two seconds, 40 queries go to two replicas: four of others for each of the own eight.
	others := noted(Some[uint32](10_000), 7, 9)
	// The mean of the own ones in flight is 3, so that of the others is 12.
	own := recentQueries{queries: 3 * fine, inFlightNS: uint64(6 * time.Second), spanNS: uint64(2 * time.Second)}
	for inFlight, expected := range map[uint32]uint32{
		// Three of four parts are 12, and one is 7.
		0: 11, // 10.75
		// Now that is seven of eight.
		4: 11, // 11.375
		// No more count than the eight elsewhere.
		12: 11, // 11.44
	} {
		if found := others.estimate(&own, inFlight, 2, nil); found != expected {
			t.Errorf("with %d in flight: %d, not %d", inFlight, found, expected)
		}
	}
	// With three replicas there are 60 queries: six and a half of others for each.
	if found := others.estimate(&own, 0, 3, nil); found != 16 { // 3/4 × 19.5 + 7/4 = 16.375
		t.Errorf("with three that answer: %d", found)
	}
	// While the law says nothing, it is the mean of what is reported.
	for name, found := range map[string]uint32{
		"nothing of its own": others.estimate(&recentQueries{}, 0, 2, nil),
		"none answers":       others.estimate(&own, 0, 0, nil),
		"fewer than none":    others.estimate(&own, 0, -1, nil),
		"no rate":            noted(Optional[uint32]{}, 7, 9).estimate(&own, 0, 2, nil),
	} {
		if found != 7 {
			t.Errorf("%s: %d", name, found)
		}
	}
	if found := (&otherClients{}).estimate(&own, 0, 2, NewSplitMix64(1)); found != 0 {
		t.Errorf("of nothing: %d", found)
	}
	own.inFlightNS = math.MaxUint64
	if found := noted(Some[uint32](math.MaxUint32), 7).estimate(&own, 0, 9, nil); found != math.MaxUint32 {
		t.Errorf("the most: %d", found)
	}
}

func TestEstimateHasTheSpreadOfReports(t *testing.T) {
	draw := NewSplitMix64(4)
	others := noted(Some[uint32](10_000), 3, 13)
	own := recentQueries{queries: 3 * fine, inFlightNS: uint64(6 * time.Second), spanNS: uint64(2 * time.Second)}
	counts := map[uint32]int{}
	for range 200 {
		counts[others.estimate(&own, 0, 2, draw)]++
	}
	// The mean of the estimate is 10.75, and the reports differ by five from theirs.
	if len(counts) != 2 || counts[6] < 70 || counts[16] < 70 {
		t.Errorf("%v", counts)
	}
	// Less than nothing is nothing.
	own.inFlightNS = 0
	counts = map[uint32]int{}
	for range 200 {
		counts[others.estimate(&own, 0, 2, draw)]++
	}
	// Of the mean, which is 7, a fourth counts.
	if len(counts) != 2 || counts[0] < 70 || counts[7] < 70 {
		t.Errorf("%v", counts)
	}
}

func TestQueriesThatReplicasAnswerAreCountedWhileAnyIsUnprobed(t *testing.T) {
	var locals localLoads
	fleet := fleetOf(2)
	locals.add(0)
	locals.add(1)
	elsewhere := Ticket{replica: 1}
	locals.queryDone(5, &elsewhere, OutcomeSuccess)
	locals.beginSilence(0, fleet)
	for _, outcome := range []Outcome{OutcomeSuccess, OutcomeFailed, OutcomeDropped, OutcomeNoConnection} {
		locals.queryDone(5, &elsewhere, outcome)
	}
	arrival := locals.querySent(5, 0)
	if arrival.watch != 1 {
		t.Errorf("%+v", arrival)
	}
	locals.queryDone(5, &Ticket{local: arrival}, OutcomeSuccess)
	if own := *locals.own.Find(0); locals.others.answered != 2 || own.sent != 1 {
		t.Errorf("%d by one that answers, %d to the other", locals.others.answered, own.sent)
	}
	locals.forgetAnswers()
	if locals.others.answered != 0 {
		t.Error("they are not forgotten")
	}
}

func TestOwnLatencyIsWithoutTheWayThereAndBack(t *testing.T) {
	var locals localLoads
	fleet := fleetOf(2)
	locals.add(0)
	locals.add(1)
	locals.answered(1, uint64(4*ms), true)
	if found := locals.withoutWayNS(0, uint64(10*ms)); found != uint64(10*ms) {
		t.Errorf("one that answers: %d", found)
	}
	locals.beginSilence(0, fleet)
	for latency, expected := range map[Instant]Instant{10 * ms: 6 * ms, 8 * ms: 4 * ms, 6 * ms: 3 * ms, 2*ms + 1: ms} {
		if found := locals.withoutWayNS(0, uint64(latency)); found != uint64(expected) {
			t.Errorf("of %d: %d, not %d", latency, found, expected)
		}
	}
	// The answer for it has the same.
	for range 5 {
		arrival := locals.querySent(0, 0)
		locals.queryDone(10*ms, &Ticket{local: arrival}, OutcomeSuccess)
	}
	var report LoadReport
	if why := locals.answer(10*ms, 0, 3, 2, 0, nil, &report); why != answeredHere {
		t.Fatalf("not answered: %d", why)
	}
	if report.Latency != 6*time.Millisecond || report.RIF != 3 {
		t.Errorf("%+v", report)
	}
}

func TestOwnLatencyIsLearnedWithoutTheWay(t *testing.T) {
	kept, client := manyRows(2)
	policy := newProbed(Default, kept, &client.settings)
	policy.drawsOthers = true
	policy.client = *client
	policy.client.locals.answered(1, uint64(4*ms), true)
	policy.client.locals.beginSilence(0, &policy.client.fleet)
	draw := NewSplitMix64(1)
	kept.forget(0)
	kept.forget(1)
	policy.answerForUnprobed(ms, 0, draw)
	query := Query{Pinned: Some(ReplicaID(0))}
	done := policy.Choose(10*ms, &query, draw, nil).Pick.Ticket
	early := policy.Choose(10*ms, &query, draw, nil).Pick.Ticket
	for name, end := range map[string]func(){
		"an end": func() { policy.HandleDone(20*ms, done, OutcomeSuccess) },
		"a head": func() { policy.HandleHead(20*ms, &early, OutcomeSuccess) },
	} {
		kept.rule.table.forget(0)
		end()
		l := kept.rule.table.of(0)
		if found, known := l.meanLatency(); !known || found != 6*fineMS {
			t.Errorf("%s: %d, known: %v", name, found, known)
		}
	}
	if early.head.ns != uint64(10*ms) {
		t.Errorf("the ticket keeps the whole latency: %d", early.head.ns)
	}
}

func TestProbeOfAnUnprobedReplicaIsAnsweredByLittlesLaw(t *testing.T) {
	var locals localLoads
	fleet := fleetOf(3)
	for i := range 3 {
		locals.add(newReplicaID(uint32(i), 0))
	}
	locals.beginSilence(0, fleet)
	locals.noteOthers(&LoadReport{QueryRateMillis: Some[uint32](20_000)}, 0, 0)
	var report LoadReport
	now := Instant(0)
	for range 60 {
		if why := locals.answer(now, 0, 0, 3, 0, nil, &report); why != answeredHere {
			t.Fatalf("not answered: %d", why)
		}
		locals.queryDone(now, &Ticket{replica: 1}, OutcomeSuccess)
		// A query that got no answer does not count.
		locals.queryDone(now, &Ticket{replica: 1}, OutcomeTimedOut)
		arrival := locals.querySent(now, 0)
		now += 100 * ms
		locals.queryDone(now, &Ticket{local: arrival}, OutcomeSuccess)
	}
	// Two that answer get 40 queries a second, ten of them from this client, which has one in flight
	// at the other: 40 parts of 41 are 3. With all three it would be five.
	if report.RIF != 3 {
		t.Errorf("%d in flight", report.RIF)
	}
}

func TestRatesAreForgottenWhenAFirstReplicaFallsSilent(t *testing.T) {
	locals := localLoads{}
	fleet := fleetOf(2)
	for replica := range 2 {
		locals.add(newReplicaID(uint32(replica), 0))
	}
	for replica, rate := range []uint64{0, 20_000} {
		locals.others.rateMillis.record(20_000)
		locals.others.own.read(0, 0, 0)
		locals.beginSilence(newReplicaID(uint32(replica), 0), fleet)
		if _, known := locals.others.own.readAt.Get(); known || locals.others.rateMillis.mean() != rate {
			t.Errorf("%d: %+v", replica, locals.others)
		}
		locals.others.rateMillis.record(20_000)
	}
	locals.others.own.read(0, 0, 0)
	locals.endSilence(0)
	if _, known := locals.others.own.readAt.Get(); known {
		t.Error("own queries are not counted anew when one answers again")
	}
}

func TestHighestFifthIsNotOrdinary(t *testing.T) {
	var values recentValues
	if most, mean := values.ordinary(); most != 0 || mean != 0 {
		t.Errorf("of nothing: %d, %d", most, mean)
	}
	for _, value := range []uint64{10, 20, 30, 40, 1_000} {
		values.record(value)
	}
	if most, mean := values.ordinary(); most != 1_000 || mean != 220 {
		t.Errorf("one of five: %d, %d", most, mean)
	}
	values.record(50)
	if most, mean := values.ordinary(); most != 50 || mean != 33 {
		t.Errorf("one of six: %d, %d", most, mean)
	}
}

func TestFurtherReportsAreNeededIfNoneCome(t *testing.T) {
	kept, client := manyRows(newestMax + 1)
	for sent, few := range map[uint64]bool{48: false, 49: true} {
		kept.further.enoughUntil = 48
		client.fleet.sent = sent
		if kept.querySent(&Query{}, Optional[uint32]{}, client, nil); kept.further.areNeeded() != few {
			t.Errorf("%d queries: %+v", sent, kept.further)
		}
	}
}
