package policy

import (
	"testing"
	"time"
)

const ms = Instant(time.Millisecond)

// driver drives a policy with a fleet by hand. Each probe is answered at once with a report.
type driver struct {
	policy   Policy
	ids      ReplicaIDs
	replicas []ReplicaID
	now      Instant
	draw     *SplitMix64
	// answer fills the report of a replica; nil leaves probes unanswered.
	answer func(place int, report *LoadReport)
	report LoadReport
	query  Query
}

func newDriver(tb testing.TB, name string, settings Settings, replicas int) *driver {
	tb.Helper()
	policy, err := New(name, settings)
	if err != nil {
		tb.Fatal(err)
	}
	d := &driver{policy: policy, draw: NewSplitMix64(1)}
	for range replicas {
		d.join(tb)
	}
	return d
}

func (d *driver) join(tb testing.TB) ReplicaID {
	tb.Helper()
	replica, ok := d.ids.Allocate()
	if !ok {
		tb.Fatal("no name is left")
	}
	d.handle(Event{Kind: EventAdded, Replica: replica})
	d.replicas = append(d.replicas, replica)
	return replica
}

func (d *driver) handle(event Event) { d.policy.Handle(d.now, event, d.draw) }

// probe sends and answers the probes that are due.
func (d *driver) probe() {
	for {
		probe, due := d.policy.NextProbe(d.now, d.draw)
		if !due {
			return
		}
		if d.answer != nil {
			d.report = LoadReport{}
			d.answer(probe.Replica.Index(), &d.report)
			d.handle(Event{Kind: EventReport, Probe: probe.ID, Load: &d.report})
		}
	}
}

// pick picks a replica for a query. A round gets the answers of all its targets.
func (d *driver) pick(tb testing.TB, query Query, explanation *Explanation) Pick {
	d.query = query
	decision := d.policy.Choose(d.now, &d.query, d.draw, explanation)
	if decision.Kind == ProbeFirst {
		for replica := range decision.Round.Targets() {
			d.report = LoadReport{}
			d.answer(replica.Index(), &d.report)
			decision.Round.HandleReport(replica, &d.report)
		}
		d.query.Round = decision.Round
		decision = d.policy.Choose(d.now, &d.query, d.draw, explanation)
	}
	if decision.Kind != Picked {
		tb.Fatalf("no replica for %+v", query)
	}
	return decision.Pick
}

// serve serves a query that takes a millisecond, with its probes.
func (d *driver) serve(tb testing.TB) {
	pick := d.pick(tb, Query{}, nil)
	d.probe()
	d.now += ms
	d.policy.HandleDone(d.now, pick.Ticket, OutcomeSuccess)
}

// equalLoad reports a load that is nearly the same for all.
func equalLoad(place int, report *LoadReport) {
	report.RIF = uint32(place % 3)
	report.Latency = time.Duration(10+place%5) * time.Millisecond
	report.QueryRateMillis = Some(uint32(100_000))
}
