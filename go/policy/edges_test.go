package policy

import (
	"testing"
	"time"
)

func TestOwnTrackerAtItsEdges(t *testing.T) {
	var own ownTracker
	own.arrive(0)
	if found := own.latencyNS(3_000*ms - 1); found != 0 {
		t.Errorf("of a new replica nothing is known: %d", found)
	}
	if found := own.latencyNS(3_000 * ms); found != uint64(3*time.Second) {
		t.Errorf("a new replica that answers nothing has %d", found)
	}
	own = ownTracker{}
	// Five samples of 1 ms at 100 ms, and five of 9 ms before.
	for i := range 10 {
		began := Instant(90+i%5) * ms
		took := 9 * ms
		if i >= 5 {
			began, took = 99*ms, ms
		}
		own.finish(began+took, own.arrive(began), endSuccess)
	}
	for at, expected := range map[Instant]uint64{
		100 * ms: uint64(ms),
		// At the edge of the window only the last five are in it.
		120 * ms: uint64(ms),
		// Now the five nearest of all count, which are the newest.
		121 * ms: uint64(ms),
		// At three seconds all are forgotten.
		3_100*ms - 1: uint64(ms),
		3_100 * ms:   0,
	} {
		if found := own.latencyNS(at); found != expected {
			t.Errorf("at %d: %d, expected %d", at, found, expected)
		}
	}
	waits := own.arrive(3_200 * ms)
	if found := own.latencyNS(3_201 * ms); found != 0 {
		t.Errorf("a wait that is not longer than usual has %d", found)
	}
	if found := own.latencyNS(3_201*ms + 1); found != uint64(ms)+1 {
		t.Errorf("a wait that is longer than usual has %d", found)
	}
	own.finish(3_300*ms, waits, endCancelled)
	if found := own.latencyNS(6_300*ms - 1); found != uint64(100*ms) {
		t.Errorf("it was given up after %d", found)
	}
	if found := own.latencyNS(6_300 * ms); found != 0 {
		t.Errorf("after three seconds it still counts with %d", found)
	}
}

func TestRateStaysWhileRoundTripsAreHalfWayToSlow(t *testing.T) {
	settings := DefaultSettings().Prequal
	for roundTrip, rises := range map[time.Duration]bool{
		// Slow is 32 ms, which is eight times the usual 4 ms.
		16*time.Millisecond - 1: true,
		16 * time.Millisecond:   false,
	} {
		back := newBackOff(&settings)
		back.usualNS, back.share = uint64(4*time.Millisecond), One/2
		ends := make([]probeEnds, 2)
		for range 4 {
			for i := range ends {
				back.answered(&ends[i], uint64(roundTrip))
			}
		}
		back.tick(100*ms - 1)
		if back.share != One/2 || back.window.number != 1 {
			t.Errorf("a window ends early")
		}
		back.tick(100 * ms)
		if back.window.number != 2 || (back.share > One/2) != rises {
			t.Errorf("at %v the share is %v", roundTrip, back.share)
		}
	}
	// Fewer than eight probes are not enough, for up to a second.
	back := newBackOff(&settings)
	var ends probeEnds
	for range 7 {
		back.answered(&ends, 1)
	}
	back.tick(1_000*ms - 1)
	if back.window.number != 1 {
		t.Error("a window with few probes ends early")
	}
	if back.tick(1_000 * ms); back.window.number != 2 {
		t.Error("a window with few probes does not end")
	}
}

func TestOverloadIsOfTwoReplicasOrOfTheClient(t *testing.T) {
	for _, of := range []struct {
		window   probeWindow
		overload bool
	}{
		{probeWindow{replicas: 4, troubled: 2}, true},
		{probeWindow{replicas: 5, troubled: 2}, false},
		{probeWindow{replicas: 1, troubled: 1}, false},
		{probeWindow{sent: 8, starved: 8}, true},
		{probeWindow{sent: 9, starved: 8}, false},
		{probeWindow{sent: 1, starved: 7}, false},
		{probeWindow{sent: 100, unsent: 1}, true},
		{probeWindow{sent: 100}, false},
	} {
		if found := of.window.showsOverload(); found != of.overload {
			t.Errorf("%+v: %v", of.window, found)
		}
	}
}

func TestReplicaIsSilentOnlyAfterTenSeconds(t *testing.T) {
	var locals localLoads
	fleet := fleetOf(2)
	locals.add(0)
	locals.add(1)
	lost := func(now Instant, answeredAt maybeInstant, inARow uint8) bool {
		return locals.lost(now, 0, lostProbes{answeredAt: answeredAt, inARow: inARow}, fleet)
	}
	if lost(10_001*ms-1, maybe(ms), 9) || lost(20_000*ms, maybe(ms), 2) || lost(0, 0, 2) {
		t.Error("it becomes unprobed early")
	}
	if !lost(10_001*ms, maybe(ms), 3) || lost(10_001*ms, maybe(ms), 3) {
		t.Error("it becomes unprobed once")
	}
	if locals.unprobed != 1 || locals.unprobedAvailable != 1 || !locals.isUnprobed(0) {
		t.Errorf("%d unprobed, %d available", locals.unprobed, locals.unprobedAvailable)
	}
	fleet.setEjected(0, true)
	if locals.settle(0, fleet); locals.unprobed != 1 || locals.unprobedAvailable != 0 {
		t.Errorf("ejected: %d unprobed, %d available", locals.unprobed, locals.unprobedAvailable)
	}
	locals.answered(0, 5, true)
	if locals.unprobed != 0 || locals.isUnprobed(0) || locals.roundTrips.mean() != 5 {
		t.Errorf("answered: %d unprobed", locals.unprobed)
	}
	// One that never answered is unprobed after three losses.
	if locals.answered(1, 0, false); !locals.lost(0, 1, lostProbes{inARow: 3}, fleet) {
		t.Error("one that never answered is not unprobed")
	}
	locals.remove(1)
	if locals.unprobed != 0 || locals.unprobedAvailable != 0 {
		t.Errorf("removed: %d unprobed, %d available", locals.unprobed, locals.unprobedAvailable)
	}
}

func TestUnprobedReplicaIsTriedAgainAfterHalfAMinute(t *testing.T) {
	for passed, forgotten := range map[Instant]bool{30_000*ms - 1: false, 30_000 * ms: true} {
		var table learnedTable
		table.add(0)
		table.handleOwnLatency(5, 0, 1_000, false)
		l := table.handleReport(5+passed, &latestReport{local: true})
		if _, known := l.meanLatency(); known == forgotten {
			t.Errorf("after %d ns its latency is known: %v", passed, known)
		}
		if found := table.latencies[0].count; (found == 0) != forgotten {
			t.Errorf("after %d ns %d replicas have a latency", passed, found)
		}
	}
}
