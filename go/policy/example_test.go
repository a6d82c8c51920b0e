package policy_test

import (
	"fmt"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// A caller adds its replicas, answers the probes that the policy wants, and asks for a replica for
// each query.
func Example() {
	balancer, err := policy.New(policy.Default, policy.DefaultSettings())
	if err != nil {
		fmt.Println(err)
		return
	}
	draw := policy.NewSplitMix64(1)
	now := policy.Instant(0)

	var ids policy.ReplicaIDs
	for range 3 {
		replica, _ := ids.Allocate()
		balancer.Handle(now, policy.Event{Kind: policy.EventAdded, Replica: replica}, draw)
	}

	// Idle probes are due at once. The first two replicas report a queue.
	for range 4 {
		balancer.Handle(now, policy.Event{Kind: policy.EventTimeout}, draw)
		for {
			probe, due := balancer.NextProbe(now, draw)
			if !due {
				break
			}
			report := policy.LoadReport{RIF: 9, Latency: 20 * time.Millisecond}
			if probe.Replica.Index() == 2 {
				report.RIF = 1
			}
			balancer.Handle(now, policy.Event{Kind: policy.EventReport, Probe: probe.ID, Load: &report}, draw)
		}
		now = now.Add(100 * time.Millisecond)
	}

	decision := balancer.Choose(now, &policy.Query{}, draw, nil)
	if decision.Kind != policy.Picked {
		fmt.Println("no replica")
		return
	}
	fmt.Println(decision.Pick.Ticket.Replica(), decision.Pick.Reason)
	now = now.Add(20 * time.Millisecond)
	balancer.HandleDone(now, decision.Pick.Ticket, policy.OutcomeSuccess)
	// Output: r2 lowest_score
}

// In synchronous mode, the query waits for a round of probes.
func ExampleProbeRound() {
	balancer, err := policy.New("prequal_sync", policy.DefaultSettings())
	if err != nil {
		fmt.Println(err)
		return
	}
	draw := policy.NewSplitMix64(1)
	var ids policy.ReplicaIDs
	for range 3 {
		replica, _ := ids.Allocate()
		balancer.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, draw)
	}
	query := policy.Query{}
	decision := balancer.Choose(0, &query, draw, nil)
	for replica := range decision.Round.Targets() {
		report := policy.LoadReport{RIF: uint32(replica.Index()), Latency: 5 * time.Millisecond}
		decision.Round.HandleReport(replica, &report)
	}
	query.Round = decision.Round
	decision = balancer.Choose(policy.Instant(time.Millisecond), &query, draw, nil)
	fmt.Println(decision.Pick.Ticket.Replica(), decision.Pick.Probing)
	// Output: r0 1ms
}

// An explanation shows what a choice was made from.
func ExampleExplanation() {
	balancer, err := policy.New("least_loaded", policy.DefaultSettings())
	if err != nil {
		fmt.Println(err)
		return
	}
	draw := policy.NewSplitMix64(4)
	var ids policy.ReplicaIDs
	for range 3 {
		replica, _ := ids.Allocate()
		balancer.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, draw)
	}
	explanation := policy.NewExplanation()
	for range 2 {
		balancer.Choose(0, &policy.Query{}, draw, explanation)
	}
	fmt.Println(explanation.Comparison().Formula)
	for _, candidate := range explanation.Candidates() {
		inFlight, _ := candidate.Values.At(0)
		fmt.Println(candidate.Replica, inFlight)
	}
	// Output:
	// fewest requests in flight from this worker; of equals the next in turn
	// r2 0
	// r0 0
	// r1 1
}

func ExampleSettings_Validate() {
	settings := policy.DefaultSettings()
	settings.Prequal.PoolCapacity = 1
	fmt.Println(settings.Validate())
	// Output: prequal.pool_capacity must be from 2 to 256
}
