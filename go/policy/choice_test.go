package policy

import "testing"

// newAnswering returns a policy with replicas that have answered probes.
func newAnswering(t *testing.T, name string, replicas int) *driver {
	d := newDriver(t, name, DefaultSettings(), replicas)
	d.answer = equalLoad
	for range 50 {
		d.serve(t)
	}
	return d
}

func (d *driver) drop(pick Pick) {
	d.probe()
	d.now += ms
	d.policy.HandleDone(d.now, pick.Ticket, OutcomeDropped)
}

func TestAvoidedAndEjectedAreChosenOnlyIfNoneIsLeft(t *testing.T) {
	for _, name := range Names() {
		d := newAnswering(t, name, 4)
		ejected := d.replicas[1]
		d.handle(Event{Kind: EventAvailable, Replica: ejected})
		for range 200 {
			query := Query{Attempt: AttemptRetry, Avoid: d.replicas[:1]}
			pick := d.pick(t, query, nil)
			if chosen := pick.Ticket.Replica(); chosen == d.replicas[0] || chosen == ejected {
				t.Fatalf("%s: chose %v", name, chosen)
			}
			d.drop(pick)
		}
		available := []ReplicaID{d.replicas[0], d.replicas[2], d.replicas[3]}
		pick := d.pick(t, Query{Attempt: AttemptRetry, Avoid: available}, nil)
		if pick.Reason != ReasonLastResort || pick.Ticket.Replica() != ejected {
			t.Errorf("%s: %v by %v", name, pick.Ticket.Replica(), pick.Reason)
		}
		d.drop(pick)
		query := Query{Attempt: AttemptHedge, Avoid: available}
		if decision := d.policy.Choose(d.now, &query, d.draw, nil); decision.Kind != NoReplica {
			t.Errorf("%s: a second copy goes to %v", name, decision.Pick.Ticket.Replica())
		}
	}
}

func TestAllAreChosenInAPanic(t *testing.T) {
	for _, name := range Names() {
		d := newAnswering(t, name, 3)
		for _, replica := range d.replicas {
			d.handle(Event{Kind: EventAvailable, Replica: replica})
		}
		if !d.policy.Fleet().InPanic() {
			t.Errorf("%s: no panic", name)
		}
		pick := d.pick(t, Query{}, nil)
		if name != "prequal_sync" && pick.Reason != ReasonPanic {
			t.Errorf("%s: by %v", name, pick.Reason)
		}
		d.drop(pick)
		for _, replica := range d.replicas {
			d.handle(Event{Kind: EventRemoved, Replica: replica})
		}
		if decision := d.policy.Choose(d.now, &Query{}, d.draw, nil); decision.Kind != NoReplica {
			t.Errorf("%s: an empty fleet gives %+v", name, decision)
		}
		if _, due := d.policy.NextTimeout(); due {
			t.Errorf("%s: an empty fleet needs a timeout", name)
		}
	}
}

func TestPinnedQueryGoesToItsReplicaIfThatIsAvailable(t *testing.T) {
	for _, name := range Names() {
		d := newAnswering(t, name, 3)
		pinned := Query{Pinned: Some(d.replicas[2])}
		pick := d.pick(t, pinned, nil)
		if pick.Reason != ReasonPinned || pick.Ticket.Replica() != d.replicas[2] {
			t.Errorf("%s: %v by %v", name, pick.Ticket.Replica(), pick.Reason)
		}
		if found := d.policy.Fleet().InFlight(d.replicas[2]); found != 1 {
			t.Errorf("%s: %d in flight", name, found)
		}
		d.drop(pick)
		pinned.HasRoom = true
		if pick := d.pick(t, pinned, nil); pick.Reason != ReasonRoom {
			t.Errorf("%s: by %v", name, pick.Reason)
		}
		d.handle(Event{Kind: EventAvailable, Replica: d.replicas[2]})
		pick = d.pick(t, pinned, nil)
		if pick.Ticket.Replica() == d.replicas[2] || pick.Reason == ReasonRoom {
			t.Errorf("%s: %v by %v", name, pick.Ticket.Replica(), pick.Reason)
		}
	}
}

func TestTrialsNeedHealth(t *testing.T) {
	for _, name := range Names() {
		d := newAnswering(t, name, 3)
		query := Query{Attempt: AttemptTrial}
		if decision := d.policy.Choose(d.now, &query, d.draw, nil); decision.Kind != NoReplica || d.policy.WantsTrial() {
			t.Errorf("%s: %+v", name, decision)
		}
	}
}

func TestLessLoadedReplicaIsChosen(t *testing.T) {
	for _, name := range []string{Default, "prequal", "prequal_sync"} {
		d := newDriver(t, name, DefaultSettings(), 8)
		d.answer = func(place int, report *LoadReport) {
			equalLoad(0, report)
			report.RIF = 20
			if place == 3 {
				report.RIF = 0
			}
		}
		chosen := 0
		for range 200 {
			pick := d.pick(t, Query{}, nil)
			chosen += number(pick.Ticket.Replica() == d.replicas[3])
			d.drop(pick)
		}
		// At random it would be 25.
		if chosen < 60 {
			t.Errorf("%s: %d of 200", name, chosen)
		}
	}
}

func TestUnansweredProbesMakeReplicasUnprobedAndBalancedLocally(t *testing.T) {
	for _, name := range []string{Default, "prequal"} {
		d := newDriver(t, name, DefaultSettings(), 3)
		for range 600 {
			d.serve(t)
			d.handle(Event{Kind: EventTimeout})
		}
		for _, view := range d.policy.Snapshot(d.now).Replicas {
			if !view.Unprobed || !view.Available || view.Lost {
				t.Errorf("%s: %+v", name, view)
			}
		}
		counters := d.policy.Counters()
		if counters.ProbesLocal == 0 || counters.ProbesAnswered > 0 {
			t.Errorf("%s: %+v", name, counters)
		}
		// A replica that fails to connect is not offered for a second.
		failed := d.pick(t, Query{Pinned: Some(d.replicas[0])}, nil)
		d.policy.HandleDone(d.now, failed.Ticket, OutcomeNoConnection)
		for range 50 {
			pick := d.pick(t, Query{}, nil)
			if pick.Ticket.Replica() == d.replicas[0] && name == Default {
				t.Fatalf("%s: chose the one that could not be reached", name)
			}
			d.drop(pick)
		}
	}
}

func TestReplicaThatStopsAnsweringWhileOthersAnswerIsLost(t *testing.T) {
	d := newDriver(t, "prequal", DefaultSettings(), 4)
	isGone := false
	for i := range 4_000 {
		d.pickAndProbe(t, func(replica ReplicaID) bool { return isGone && replica == d.replicas[2] })
		if i == 2_000 {
			isGone = true
		}
	}
	fleet := d.policy.Fleet()
	if fleet.IsAvailable(d.replicas[2]) || !fleet.IsAvailable(d.replicas[0]) {
		t.Errorf("%+v", d.policy.Snapshot(d.now).Replicas)
	}
	isGone = false
	for range 400 {
		d.pickAndProbe(t, func(ReplicaID) bool { return false })
	}
	if !fleet.IsAvailable(d.replicas[2]) {
		t.Error("it answers again, and is not available")
	}
}

// pickAndProbe serves a query, and answers probes except to replicas that are gone.
func (d *driver) pickAndProbe(t *testing.T, isGone func(ReplicaID) bool) {
	pick := d.pick(t, Query{}, nil)
	for {
		probe, due := d.policy.NextProbe(d.now, d.draw)
		if !due {
			break
		}
		if !isGone(probe.Replica) {
			d.handle(Event{Kind: EventReport, Probe: probe.ID, Load: &LoadReport{RIF: 1}})
		}
	}
	d.now += ms
	d.handle(Event{Kind: EventTimeout})
	d.policy.HandleDone(d.now, pick.Ticket, OutcomeSuccess)
}

func TestReportsWithoutLoadAndUnknownEventsAreIgnored(t *testing.T) {
	for _, name := range Names() {
		d := newAnswering(t, name, 2)
		before, counters := d.policy.Snapshot(d.now), d.policy.Counters()
		for kind := range EventKind(20) {
			if kind == EventAdded || kind == EventTimeout {
				continue
			}
			d.handle(Event{Kind: kind, Replica: newReplicaID(7, 7), Probe: newProbeID(9, 9)})
		}
		after := d.policy.Snapshot(d.now)
		if len(before.Replicas) != len(after.Replicas) || len(before.Pool) != len(after.Pool) {
			t.Errorf("%s: %+v", name, after)
		}
		if found := d.policy.Counters(); found != counters {
			t.Errorf("%s: %+v, before %+v", name, found, counters)
		}
	}
}

func TestTicketThatIsReturnedTwiceDoesNoHarm(t *testing.T) {
	for _, name := range Names() {
		settings := DefaultSettings()
		settings.Prequal.LocalOnly = true
		d := newDriver(t, name, settings, 2)
		d.answer = equalLoad
		for range 20 {
			pick := d.pick(t, Query{}, nil)
			d.probe()
			d.now += ms
			for range 3 {
				d.policy.HandleDone(d.now, pick.Ticket, OutcomeNoConnection)
			}
		}
		for _, view := range d.policy.Snapshot(d.now).Pool {
			if view.RIF > 10 || view.Latency > d.now.Since(0) {
				t.Errorf("%s: %+v", name, view)
			}
		}
	}
}

func TestTargetOfAProbeIsKnownUntilItEnds(t *testing.T) {
	d := newDriver(t, "prequal", DefaultSettings(), 2)
	d.handle(Event{Kind: EventTimeout})
	probe, due := d.policy.NextProbe(d.now, d.draw)
	if target, known := d.policy.ProbeTarget(probe.ID); !due || !known || target != probe.Replica {
		t.Errorf("%v, known %v", target, known)
	}
	d.handle(Event{Kind: EventProbeLost, Probe: probe.ID})
	if target, known := d.policy.ProbeTarget(probe.ID); known {
		t.Errorf("it has ended, and goes to %v", target)
	}
}
