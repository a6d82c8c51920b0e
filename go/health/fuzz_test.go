package health_test

import (
	"slices"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/policy"
)

// machine plays a list of operations, one of a few bytes after the other. Its events may be about
// replicas, probes and tickets of any age.
type machine struct {
	policy  policy.Policy
	bytes   []byte
	now     policy.Instant
	draw    *policy.SplitMix64
	ids     policy.ReplicaIDs
	known   []policy.ReplicaID
	past    []policy.ReplicaID
	tickets []policy.Ticket
	probes  []policy.Probe
}

func (m *machine) byte() byte {
	if len(m.bytes) == 0 {
		return 0
	}
	next := m.bytes[0]
	m.bytes = m.bytes[1:]
	return next
}

// replica returns one of those that were ever known, and at times one that never was.
func (m *machine) replica() policy.ReplicaID {
	place := int(m.byte())
	if place >= len(m.past) {
		return policy.ReplicaID(place) << (place % 64)
	}
	return m.past[place]
}

func (m *machine) report() *policy.LoadReport {
	how := m.byte()
	report := &policy.LoadReport{
		RIF:      uint32(how),
		Latency:  time.Duration(how%8) * 20 * time.Millisecond,
		Draining: how%16 == 3,
	}
	if how%2 == 0 {
		report.ErrorMillionths = policy.Some(uint32(how) * 10_000)
	}
	if how%5 == 0 {
		report.Incarnation = policy.Some(uint64(how % 3))
	}
	return report
}

// outcome returns an outcome. One replica of four fails most of its queries, the others few.
func (m *machine) outcome(of *policy.Ticket) policy.Outcome {
	how := m.byte()
	if isBad := of.Replica().Index()%4 == 1; (how < 200) == isBad {
		return policy.Outcome(how % 8)
	}
	return policy.OutcomeSuccess
}

// step plays one operation.
func (m *machine) step() {
	op := m.byte()
	// The clock moves by some milliseconds or seconds, and steps back at times.
	switch span := time.Duration(m.byte()); {
	case span == 255:
		m.now -= min(m.now, policy.Instant(time.Second))
	case span > 248:
		m.now = m.now.Add((span - 248) * time.Second)
	default:
		m.now = m.now.Add(span * time.Millisecond / 8)
	}
	switch op % 24 {
	case 0:
		if replica, isNew := m.ids.Allocate(); isNew && len(m.known) < 100 {
			m.known, m.past = append(m.known, replica), append(m.past, replica)
			m.policy.Handle(m.now, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
		}
	case 1:
		replica := m.replica()
		m.policy.Handle(m.now, policy.Event{Kind: policy.EventRemoved, Replica: replica}, nil)
		if place := slices.Index(m.known, replica); place >= 0 {
			m.known = slices.Delete(m.known, place, place+1)
			m.ids.Release(replica)
		}
	case 2:
		event := policy.Event{Kind: policy.EventAvailable, Replica: m.replica(), Flag: op > 80}
		m.policy.Handle(m.now, event, nil)
	case 3:
		kind := policy.EventSiblingReport
		if op > 100 {
			kind = policy.EventCarriedReport
		}
		m.policy.Handle(m.now, policy.Event{Kind: kind, Replica: m.replica(), Load: m.report()}, m.draw)
	case 4:
		if len(m.probes) > 0 {
			place := int(m.byte()) % len(m.probes)
			event := policy.Event{Kind: policy.EventReport, Probe: m.probes[place].ID, Load: m.report()}
			if op > 200 {
				event.Load = nil
			}
			m.policy.Handle(m.now, event, m.draw)
		}
	case 5:
		m.policy.Handle(m.now, policy.Event{Kind: policy.EventTimeout}, m.draw)
	case 6:
		if len(m.tickets) > 0 {
			place := int(m.byte()) % len(m.tickets)
			m.policy.HandleHead(m.now, &m.tickets[place], m.outcome(&m.tickets[place]))
		}
	case 7, 8, 9, 10, 11, 12, 13, 14:
		if len(m.tickets) > 0 {
			place := int(m.byte()) % len(m.tickets)
			m.policy.HandleDone(m.now, m.tickets[place], m.outcome(&m.tickets[place]))
			m.tickets = slices.Delete(m.tickets, place, place+1)
		}
	default:
		m.choose(op)
	}
	for len(m.probes) < 1_000 {
		probe, isDue := m.policy.NextProbe(m.now, m.draw)
		if !isDue {
			return
		}
		m.probes = append(m.probes, probe)
	}
}

func (m *machine) choose(op byte) {
	query := policy.Query{Attempt: policy.Attempt(op / 24 % 5)}
	if op > 200 {
		query.Pinned = policy.Some(m.replica())
	}
	if query.Attempt == policy.AttemptRetry {
		query.Avoid = m.known[:len(m.known)/2]
	}
	explanation := policy.NewExplanation()
	decision := m.policy.Choose(m.now, &query, m.draw, explanation)
	if decision.Kind == policy.ProbeFirst {
		query.Round = decision.Round
		for replica := range query.Round.Targets() {
			query.Round.HandleReport(replica, m.report())
		}
		decision = m.policy.Choose(m.now, &query, m.draw, explanation)
	}
	if decision.Kind == policy.Picked {
		m.tickets = append(m.tickets, decision.Pick.Ticket)
	}
}

// check checks what must hold after each operation.
func (m *machine) check(t *testing.T) {
	m.policy.NextTimeout()
	m.policy.WantsTrial()
	views := m.policy.Snapshot(m.now).Health
	if len(views) != len(m.known) {
		t.Fatalf("%d views of %d replicas", len(views), len(m.known))
	}
	out := 0
	for _, view := range views {
		isOut := view.State == policy.HealthEjected || view.State == policy.HealthOnProbation
		if view.ShareMillionths > 1_000_000 || view.SuccessMillionths > 1_000_000 ||
			(view.ShareMillionths == 0) != isOut {
			t.Fatalf("%+v", view)
		}
		if isOut {
			out++
		}
		if isOut && m.policy.Fleet().IsAvailable(view.Replica) {
			t.Fatalf("%v is out and available", view.Replica)
		}
	}
	if out == len(views) && out > 0 {
		t.Fatalf("all %d replicas are out", out)
	}
}

// FuzzOperations plays any list of operations: the guard does not panic, shares are in range, and
// some replica is left.
func FuzzOperations(f *testing.F) {
	seeds := policy.NewSplitMix64(1)
	for range 20 {
		operations := make([]byte, 3_000)
		for i := range operations {
			operations[i] = byte(seeds.Draw())
		}
		f.Add(operations)
	}
	f.Fuzz(func(t *testing.T, operations []byte) {
		m := &machine{bytes: operations, draw: policy.NewSplitMix64(1)}
		names := policy.Names()
		inner, err := policy.New(names[int(m.byte())%len(names)], policy.DefaultSettings())
		if err != nil {
			t.Fatal(err)
		}
		settings := health.DefaultSettings()
		settings.ShadowTrials = m.byte()%2 == 0
		settings.Trials = policy.Millionths(m.byte()) * 3_000
		if m.policy, err = health.Guard(inner, settings); err != nil {
			t.Fatal(err)
		}
		for len(m.bytes) > 0 {
			m.step()
			m.check(t)
		}
	})
}
