package health_test

import (
	"fmt"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/policy"
)

// One of three replicas fails. After five failures in a row it is ejected, and trials test it.
func ExampleGuard() {
	inner, err := policy.New("least_loaded", policy.DefaultSettings())
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := health.Guard(inner, health.StandardSettings())
	if err != nil {
		fmt.Println(err)
		return
	}

	var ids policy.ReplicaIDs
	for range 3 {
		replica, _ := ids.Allocate()
		p.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
	}

	// A client passes its clock and a source of draws, and tells the policy how each query ended.
	draw := policy.NewSplitMix64(1)
	failed := 0
	for query := range 1_000 {
		now := policy.Instant(0).Add(time.Duration(query) * 10 * time.Millisecond)
		decision := p.Choose(now, &policy.Query{}, draw, nil)
		ticket := decision.Pick.Ticket
		outcome := policy.OutcomeSuccess
		if ticket.Replica().Index() == 1 {
			outcome = policy.OutcomeFailed
			failed++
		}
		p.HandleDone(now.Add(5*time.Millisecond), ticket, outcome)
	}

	for _, view := range p.Snapshot(policy.Instant(10 * time.Second)).Health {
		fmt.Println(view.Replica, view.State)
	}
	counters := p.Counters().Health
	fmt.Println(failed, "failed, of which", counters.Trials, "are trials")
	// Output:
	// r0 sound
	// r1 ejected
	// r2 sound
	// 7 failed, of which 2 are trials
}
