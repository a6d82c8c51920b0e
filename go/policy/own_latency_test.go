package policy_test

import (
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/policy"
)

// TestOwnTrackerMatchesAReplicasOwn plays the same queries to the tracker that a policy keeps for
// an unprobed replica, and to the one of package load.
func TestOwnTrackerMatchesAReplicasOwn(t *testing.T) {
	ends := map[policy.Outcome]load.Outcome{
		policy.OutcomeSuccess:    load.Success,
		policy.OutcomeFailed:     load.Failed,
		policy.OutcomePushedBack: load.Failed,
		policy.OutcomeDropped:    load.Cancelled,
	}
	outcomes := []policy.Outcome{
		policy.OutcomeSuccess, policy.OutcomeSuccess, policy.OutcomeSuccess, policy.OutcomeSuccess,
		policy.OutcomeFailed, policy.OutcomePushedBack, policy.OutcomeDropped, policy.OutcomeNoConnection,
	}
	known := 0
	for seed := range uint64(40) {
		config := load.DefaultTrackerConfig()
		config.SampleCapacity = 16
		theirs, ours := load.NewTracker(config), &policy.OwnTracker{}
		type query struct {
			theirs load.Arrival
			ours   policy.OwnArrival
		}
		var queries []query
		draw := policy.NewSplitMix64(seed)
		// Spans in which nothing is old, samples leave the window, and all of them are forgotten.
		spans := []uint32{1, 2_000, 6_000, 30_000, 1_000_000}
		now := policy.Instant(seed) * policy.Instant(time.Second)
		for step := range 2_000 {
			span := spans[policy.Below(draw, uint32(len(spans)))] >> (seed % 3 * 4)
			now = now.Add(time.Duration(policy.Below(draw, span+1)) * time.Microsecond)
			if len(queries) < int(policy.Below(draw, 8)) {
				queries = append(queries, query{theirs.Arrive(now), ours.Arrive(now)})
			} else if count := uint32(len(queries)); count > 0 {
				index := policy.Below(draw, count)
				outcome := outcomes[policy.Below(draw, uint32(len(outcomes)))]
				found := &queries[index]
				switch end, is := ends[outcome]; {
				case is && policy.Below(draw, 3) == 0:
					theirs.Head(now, &found.theirs, end)
					ours.Head(now, &found.ours, outcome)
				case is:
					theirs.Finish(now, found.theirs, end)
					ours.Finish(now, found.ours, outcome)
					queries = append(queries[:index], queries[index+1:]...)
				default:
					theirs.Withdraw(found.theirs)
					ours.Finish(now, found.ours, outcome)
					queries = append(queries[:index], queries[index+1:]...)
				}
			}
			expected, latency := theirs.Report(now).Latency, ours.Latency(now)
			if latency != expected {
				t.Fatalf("seed %d, step %d: %v, expected %v", seed, step, latency, expected)
			}
			if theirs, ours := theirs.RIFTime(now), ours.RIFTimeNS(now); ours != uint64(theirs) {
				t.Fatalf("seed %d, step %d: %d ns in flight, expected %d", seed, step, ours, theirs)
			}
			if latency > 0 {
				known++
			}
		}
	}
	if known < 10_000 {
		t.Errorf("only %d latencies were known", known)
	}
}
