package policy

import (
	"slices"
	"testing"
	"time"
)

// manyRows returns the reports of this many replicas, received at the beginning, while few come.
func manyRows(replicas int) (*latest, *client) {
	kept := &latest{
		rule:        expectedDelay{settings: DefaultSettings().ShortestExpectedDelay},
		reportAgeNS: uint64(10 * time.Second),
	}
	of := &client{settings: DefaultSettings().Prequal, fleet: *fleetOf(replicas)}
	for i := range replicas {
		replica := newReplicaID(uint32(i), 0)
		kept.addReplica(replica)
		of.locals.add(replica)
		kept.handleReport(ms, subject{replica: replica}, &LoadReport{RIF: 9, Latency: time.Millisecond}, of, nil)
	}
	return kept, of
}

// furtherOnes returns the replicas of the further reports that are compared next.
func (l *latest) furtherOnes() []ReplicaID {
	var all []ReplicaID
	for nth := len(l.rows.newest()); nth < l.candidatesMax(&Query{}); nth++ {
		if row := l.candidate(&Query{}, nth); row != nil {
			all = append(all, row.replica)
		}
	}
	return all
}

func TestFurtherReportsAreComparedInTurnWhileFewCome(t *testing.T) {
	kept, client := manyRows(newestMax + 11)
	rest := kept.rows.all[newestMax:]
	replicas := func(places ...int) []ReplicaID {
		var all []ReplicaID
		for _, place := range places {
			all = append(all, rest[place].replica)
		}
		return all
	}
	draw := NewSplitMix64(1)
	for i, expected := range [][]ReplicaID{
		replicas(0, 1, 2, 3, 4, 5, 6, 7), replicas(8, 9, 10, 0, 1, 2, 3, 4), replicas(5, 6, 7, 8, 9, 10, 0, 1),
	} {
		if found := kept.furtherOnes(); !slices.Equal(found, expected) {
			t.Errorf("choice %d compares %v, not %v", i, found, expected)
		}
		candidates := slices.Collect(kept.candidates(&Query{}))
		if len(candidates) != newestMax+furtherMax || candidates[newestMax].replica != expected[0] {
			t.Errorf("choice %d has %d candidates", i, len(candidates))
		}
		if order := kept.compared(ms, client); len(order) != newestMax+furtherMax {
			t.Errorf("choice %d: %d are compared", i, len(order))
		}
		// The lowest is among the further ones.
		row := kept.rows.find(expected[5])
		row.others = 0
		kept.weigh(row)
		found, _ := kept.choose(ms, &Query{}, client, draw)
		if found.replica != expected[5] || found.candidates != newestMax+furtherMax {
			t.Errorf("choice %d: %+v", i, found)
		}
		row.others = 9
		kept.weigh(row)
		kept.further.pass(newestMax, newestMax+11)
	}
	// One that the query avoids does not count, nor does one that is not fresh.
	next := kept.furtherOnes()
	kept.rows.find(next[1]).receivedAt = 0
	kept.expiredBefore = ms
	if found := kept.furtherOnes(); !slices.Equal(found, slices.Delete(slices.Clone(next), 1, 2)) {
		t.Errorf("with one that is not fresh: %v of %v", found, next)
	}
	found, _ := kept.best(2*ms, &Query{Avoid: next[:1]}, client, draw)
	if found.candidates != newestMax+furtherMax-2 {
		t.Errorf("%d candidates", found.candidates)
	}
	// If enough come, only the newest are compared.
	kept.further.enoughUntil = furtherQueriesMax
	from := kept.further.from
	found, _ = kept.choose(2*ms, &Query{}, client, draw)
	if found.candidates != newestMax || kept.further.from != from || len(kept.furtherOnes()) > 0 {
		t.Errorf("if enough come: %+v", found)
	}
}

func TestFurtherReportsMayBeFewOrNone(t *testing.T) {
	for _, replicas := range []int{1, newestMax, newestMax + 3} {
		kept, client := manyRows(replicas)
		for range 5 {
			found, any := kept.choose(ms, &Query{}, client, NewSplitMix64(1))
			if !any || int(found.candidates) != replicas {
				t.Errorf("%d replicas: %d candidates", replicas, found.candidates)
			}
		}
	}
	kept, client := manyRows(newestMax + 20)
	kept.further.from = 19
	for i := range 18 {
		kept.forget(newReplicaID(uint32(i), 0))
	}
	if found := kept.furtherOnes(); len(found) != 2 {
		t.Errorf("%v are left", found)
	}
	if _, any := kept.choose(ms, &Query{}, client, NewSplitMix64(1)); !any {
		t.Error("no choice")
	}
}

// TestEqualFurtherReportsAreDrawnInTurn: the order of draws is that of the turn, and the runner-up
// is the first that was not drawn.
func TestEqualFurtherReportsAreDrawnInTurn(t *testing.T) {
	kept, client := manyRows(newestMax + 11)
	kept.further.from = 8
	equals := kept.furtherOnes()
	// Those at places 10, 0 and 1.
	equals = equals[2:5]
	for _, replica := range equals {
		row := kept.rows.find(replica)
		row.others = 0
		kept.weigh(row)
	}
	for nth, runnerUp := range []ReplicaID{equals[1], equals[0], equals[0]} {
		kept.further.from = 8
		found, _ := kept.best(ms, &Query{}, client, &nthOf{nth: nth, of: len(equals)})
		if found.replica != equals[nth] || found.runnerUp != Some(runnerUp) {
			t.Errorf("draw %d: %+v", nth, found)
		}
	}
}

// nthOf draws the nth of some.
type nthOf struct{ nth, of int }

func (n *nthOf) Draw() uint64 { return (uint64(2*n.nth+1) << 32) / uint64(2*n.of) << 32 }

func TestReportsOfAllKindsAreHeard(t *testing.T) {
	kept, client := manyRows(2)
	kept.further = further{}
	kept.handleCarried(ms, 0, &LoadReport{CapacityMilliRIF: Some(uint32(1_000))}, client)
	kept.handleReport(ms, subject{replica: 1, local: true}, &LoadReport{}, client, nil)
	if kept.further.reports != 2 {
		t.Errorf("%d are heard", kept.further.reports)
	}
}

func TestFewReportsComeIfFewerThanFourInThreeQueries(t *testing.T) {
	for _, of := range []struct {
		queries uint64
		few     bool
	}{{0, false}, {48, false}, {49, true}} {
		f := further{sent: 100}
		if of.few {
			f.enoughUntil = 100 + furtherQueriesMax
		}
		for report := range 64 {
			if f.areNeeded() == of.few {
				t.Errorf("counted after %d reports", report)
			}
			f.reported(100+of.queries, false)
		}
		if f.areNeeded() != of.few || f.reports != 0 || f.sent != 100+of.queries {
			t.Errorf("%d queries: %+v", of.queries, f)
		}
	}
}

func TestReportsAreNeverEnoughOfAClientThatSendsMost(t *testing.T) {
	f := further{enoughUntil: furtherQueriesMax}
	for range 64 {
		f.reported(1, true)
	}
	if !f.areNeeded() {
		t.Errorf("%+v", f)
	}
}

// TestOnlyAnswersToProbesTellOwnShare: reports with responses come from replicas that were picked.
// While one answers no probes it is not known whether this client sends most.
func TestOnlyAnswersToProbesTellOwnShare(t *testing.T) {
	kept, client := manyRows(2)
	kept.ownShare = ownShare{}
	report := LoadReport{CapacityMilliRIF: Some(uint32(1_000)), QueryRateMillis: Some(uint32(7))}
	kept.handleCarried(ms, 0, &report, client)
	if kept.ownShare.reports != 0 {
		t.Errorf("%+v", kept.ownShare)
	}
	kept.handleReport(ms, subject{replica: 1}, &report, client, nil)
	kept.ownShare.others = Some(uint64(0))
	if !kept.sendsMost(client) {
		t.Error("all answer")
	}
	client.locals.unprobedAvailable = 1
	kept.handleReport(ms, subject{replica: 1}, &report, client, nil)
	kept.handleReport(ms, subject{replica: 0, local: true}, &LoadReport{}, client, nil)
	if share := kept.ownShare; share.reports != 3 || share.rated != 2 || share.ratesMillis != 14 {
		t.Errorf("%+v", share)
	}
	if kept.sendsMost(client) {
		t.Error("one answers no probes")
	}
}

// TestAssumedLoadIsSpreadAsReportsAre: each of two unprobed replicas is drawn for itself.
func TestAssumedLoadIsSpreadAsReportsAre(t *testing.T) {
	settings := DefaultSettings()
	settings.Prequal.ProbeIdleMax = 0
	kept, client := manyRows(4)
	policy := newProbed(Default, kept, &settings.Prequal)
	policy.drawsOthers = true
	policy.client = *client
	locals := &policy.client.locals
	for _, rif := range []uint32{2, 12} {
		locals.others.note(rif, 0)
	}
	draw := NewSplitMix64(7)
	lower, alike := 0, 0
	for _, replica := range []ReplicaID{2, 3} {
		locals.beginSilence(replica, &policy.client.fleet)
	}
	for step := range 200 {
		now := Instant(step+1) * 1_000 * ms
		var rifs [2]uint32
		for i := range rifs {
			replica := newReplicaID(uint32(2+i), 0)
			policy.answerForUnprobed(now, replica, draw)
			survey := kept.survey(&policy.client)
			rifs[i] = survey.view(now, kept.rows.find(replica), &policy.client.fleet).RIF
			if rifs[i] != 2 && rifs[i] != 12 {
				t.Fatalf("%d in flight", rifs[i])
			}
		}
		lower += number(rifs[0] == 2)
		alike += number(rifs[0] == rifs[1])
	}
	if lower < 70 || lower > 130 || alike < 70 || alike > 130 {
		t.Errorf("lower %d times, alike %d times", lower, alike)
	}
}
