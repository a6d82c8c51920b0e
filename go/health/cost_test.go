package health_test

import (
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/policy"
)

// steadyFleet returns a fleet that has served, in which one replica always fails and one every
// other time, and a function that sends a query. So some replicas are out, tried, or held back.
func steadyFleet(tb testing.TB, name string) (p policy.Policy, one func()) {
	tb.Helper()
	inner, err := policy.New(name, policy.DefaultSettings())
	if err != nil {
		tb.Fatal(err)
	}
	settings := health.DefaultSettings()
	settings.Trials = policy.One
	settings.BackOff, settings.BackOffMax = time.Millisecond, time.Millisecond
	p, err = health.Guard(inner, settings)
	if err != nil {
		tb.Fatal(err)
	}
	draw := policy.NewSplitMix64(1)
	var ids policy.ReplicaIDs
	join := func(now policy.Instant) {
		replica, _ := ids.Allocate()
		p.Handle(now, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
	}
	now := policy.Instant(time.Second)
	for range 9 {
		join(now)
	}
	var query policy.Query
	var ticket policy.Ticket
	number := 0
	one = func() {
		number++
		if number == 100 {
			join(now)
		}
		decision := p.Choose(now, &query, draw, nil)
		if decision.Kind != policy.Picked {
			tb.Fatalf("decision %d", decision.Kind)
		}
		ticket = decision.Pick.Ticket
		outcome := policy.OutcomeSuccess
		if ticket.Replica().Index() < 2 && number%(1+ticket.Replica().Index()) == 0 {
			outcome = policy.OutcomeFailed
		}
		now = now.Add(2 * time.Millisecond)
		p.HandleHead(now, &ticket, outcome)
		p.HandleDone(now, ticket, outcome)
	}
	for range 5_000 {
		one()
	}
	return p, one
}

func TestNothingIsAllocatedForAQuery(t *testing.T) {
	for _, name := range []string{"random", "least_loaded", "prequal", policy.Default} {
		p, one := steadyFleet(t, name)
		before := p.Counters().Health
		if allocations := testing.AllocsPerRun(5_000, one); allocations != 0 {
			t.Errorf("%s: %v allocations for each query", name, allocations)
		}
		if after := p.Counters().Health; after.Trials == before.Trials {
			t.Errorf("%s: no trial was sent: %+v", name, after)
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	for _, isGuarded := range []bool{false, true} {
		name := "bare"
		if isGuarded {
			name = "guarded"
		}
		b.Run(name, func(b *testing.B) {
			settings := health.OffSettings()
			if isGuarded {
				settings = health.DefaultSettings()
			}
			inner, err := policy.New("least_loaded", policy.DefaultSettings())
			if err != nil {
				b.Fatal(err)
			}
			p, err := health.Guard(inner, settings)
			if err != nil {
				b.Fatal(err)
			}
			var ids policy.ReplicaIDs
			for range 100 {
				replica, _ := ids.Allocate()
				p.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
			}
			draw, now, query := policy.NewSplitMix64(1), policy.Instant(0), policy.Query{}
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(10 * time.Microsecond)
				decision := p.Choose(now, &query, draw, nil)
				p.HandleDone(now, decision.Pick.Ticket, policy.OutcomeSuccess)
			}
		})
	}
}
