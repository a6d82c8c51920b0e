package policy

import (
	"slices"
	"testing"
)

// fleetOf returns a fleet of this many replicas that have answered a probe at 0.
func fleetOf(replicas int) *Fleet {
	fleet := &Fleet{}
	for i := range replicas {
		replica := newReplicaID(uint32(i), 0)
		fleet.add(replica)
		fleet.standings.Find(replica).lastProbe.answered(0)
		fleet.answered(0, replica, 0, true)
	}
	return fleet
}

// lose loses this many probes of a replica in a row.
func lose(fleet *Fleet, now Instant, replica ReplicaID, probes int) changed {
	var found changed
	for range probes {
		found = fleet.probeLost(now, replica, fleet.standings.Find(replica).lastProbe.lost(now))
	}
	return found
}

// answer notes an answer of a replica.
func answerProbe(fleet *Fleet, now Instant, replica ReplicaID) changed {
	lost := fleet.standings.Find(replica).lastProbe.answered(now)
	return fleet.answered(now, replica, lost, true)
}

func TestReplicaIsLostOnlyIfOthersAnswer(t *testing.T) {
	fleet := fleetOf(3)
	if found := lose(fleet, 600*ms, 1, 3); found != changedNone || !fleet.IsAvailable(1) {
		t.Errorf("no other has answered since: %v", found)
	}
	answerProbe(fleet, 601*ms, 0)
	if found := lose(fleet, 602*ms, 1, 1); found != changedItself || fleet.IsAvailable(1) {
		t.Errorf("another has answered: %v", found)
	}
	if found := answerProbe(fleet, 603*ms, 1); found != changedItself || !fleet.IsAvailable(1) {
		t.Errorf("it answers again: %v", found)
	}
	lose(fleet, 700*ms, 2, 3)
	answerProbe(fleet, 701*ms, 0)
	if found := lose(fleet, 1_102*ms, 1, 3); found != changedNone {
		t.Errorf("half a second has not passed: %v", found)
	}
}

func TestLostReplicaNeverLeavesTheClientWithoutAChoice(t *testing.T) {
	fleet := fleetOf(2)
	answerProbe(fleet, 600*ms, 0)
	lose(fleet, 600*ms, 1, 4)
	if !slices.Equal(fleet.Available(), []ReplicaID{0}) {
		t.Fatalf("%v", fleet.Available())
	}
	if found := fleet.setEjected(0, true); found != changedOthers || !slices.Equal(fleet.Available(), []ReplicaID{1}) {
		t.Errorf("only the lost one is left: %v, %v", found, fleet.Available())
	}
	if fleet.InPanic() {
		t.Error("a lost replica is better than panic")
	}
	if found := fleet.setEjected(0, false); found != changedOthers || !slices.Equal(fleet.Available(), []ReplicaID{0}) {
		t.Errorf("another is back: %v, %v", found, fleet.Available())
	}
	fleet.remove(0)
	if !slices.Equal(fleet.Available(), []ReplicaID{1}) {
		t.Errorf("the other has left: %v", fleet.Available())
	}
	fleet.add(2)
	if !slices.Equal(fleet.Available(), []ReplicaID{2}) {
		t.Errorf("one has joined: %v", fleet.Available())
	}
}

func TestNoReplicaIsLostWhenProbesAreBroken(t *testing.T) {
	fleet := fleetOf(3)
	answerProbe(fleet, 600*ms, 0)
	lose(fleet, 600*ms, 1, 4)
	lose(fleet, 600*ms, 2, 4)
	if fleet.lost != 2 || fleet.present != 1 {
		t.Fatalf("%d lost, %d present", fleet.lost, fleet.present)
	}
	// No replica answers any longer.
	if found := lose(fleet, 1_200*ms, 0, 3); found != changedOthers || fleet.lost != 0 || len(fleet.Available()) != 3 {
		t.Errorf("%v, %d lost, %v", found, fleet.lost, fleet.Available())
	}
	for replica := range ReplicaID(3) {
		if found := lose(fleet, 2_200*ms, replica, 1); found != changedNone || fleet.lost != 0 {
			t.Errorf("none has answered since: %v, %d lost", found, fleet.lost)
		}
	}
	answerProbe(fleet, 2_300*ms, 0)
	if found := lose(fleet, 3_200*ms, 1, 1); found != changedItself || fleet.lost != 1 {
		t.Errorf("one answers again: %v, %d lost", found, fleet.lost)
	}
}

func TestReplicaThatComesBackHasJustHadItsTurn(t *testing.T) {
	fleet := fleetOf(2)
	for range 10 {
		fleet.querySent(0)
	}
	fleet.setEjected(1, true)
	fleet.setEjected(1, false)
	if inFlight, turn := fleet.sentTo(1); inFlight != 0 || turn.last != 10 || turn.ahead == 0 {
		t.Errorf("%d in flight, %+v", inFlight, turn)
	}
	fleet.passTurn(&Query{Avoid: []ReplicaID{1}}, 1)
	if inFlight, turn := fleet.sentTo(1); inFlight != 0 || turn.last != 11 {
		t.Errorf("after its turn has passed: %d in flight, %+v", inFlight, turn)
	}
	fleet.passTurn(&Query{Avoid: []ReplicaID{1}}, 0)
	if fleet.sent != 11 {
		t.Error("the turn of a replica passes that the query may go to")
	}
}

func TestReportIsAtLeastWhatThisClientHadThere(t *testing.T) {
	d := newDriver(t, "prequal", DefaultSettings(), 2)
	var picks []Pick
	for range 5 {
		picks = append(picks, d.pick(t, Query{Pinned: Some(d.replicas[0])}, nil))
	}
	d.answer = func(int, *LoadReport) {}
	d.probe()
	for _, view := range d.policy.Snapshot(d.now).Pool {
		expected := uint32(0)
		if view.Replica == d.replicas[0] {
			expected = 5
		}
		if view.RIF != expected {
			t.Errorf("%v counts with %d", view.Replica, view.RIF)
		}
	}
	for _, pick := range picks {
		d.policy.HandleDone(d.now, pick.Ticket, OutcomeSuccess)
	}
}

func TestDrainingEndsWhenAReplicaBecomesUnprobed(t *testing.T) {
	d := newDriver(t, "prequal", DefaultSettings(), 2)
	d.answer = func(place int, report *LoadReport) { report.Draining = place == 0 }
	for range 20 {
		d.serve(t)
	}
	if d.policy.Fleet().IsAvailable(d.replicas[0]) {
		t.Fatal("it drains")
	}
	d.answer = nil
	for range 12_000 {
		d.serve(t)
		d.handle(Event{Kind: EventTimeout})
	}
	for _, view := range d.policy.Snapshot(d.now).Replicas {
		if !view.Unprobed || view.Draining || !view.Available {
			t.Errorf("%+v", view)
		}
	}
}

func TestLostProbesCountFromTheFirst(t *testing.T) {
	var probe lastProbe
	probe.lost(3)
	probe.lost(5)
	if found := probe.lost(7); found.since != 3 || found.inARow != 3 || found.answeredAt != 0 {
		t.Errorf("%+v", found)
	}
	if lost := probe.answered(8); lost != 3 {
		t.Errorf("%d were lost before the answer", lost)
	}
	if found := probe.lost(9); found.since != 9 || found.inARow != 1 || found.answeredAt != maybe(8) {
		t.Errorf("%+v", found)
	}
	probe.lostInARow = 255
	if found := probe.lost(10); found.inARow != 255 {
		t.Errorf("%+v", found)
	}
}
