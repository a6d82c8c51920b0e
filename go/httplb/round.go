package httplb

import (
	"context"
	"time"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// roundsMax is the most requests that may wait for their probes at once. One more is picked at
// once, without answers.
const roundsMax = 4096

// round is a synchronous round, for which one request waits.
type round struct {
	probes *policy.ProbeRound
	// done is closed when enough have answered.
	done    chan struct{}
	isReady bool
	// hasEnded says that the request no longer waits.
	hasEnded bool
}

// await sends the probes of a round, and waits for them.
func (b *balancer) await(ctx context.Context, r *round, hint []byte) error {
	if len(hint) > probe.HintBytesMax {
		hint = nil
	}
	type target struct {
		id      policy.ReplicaID
		replica *replica
	}
	var targets [policy.MaxRoundProbes + 1]target
	count := 0
	b.mu.Lock()
	for id := range r.probes.Targets() {
		targets[count] = target{id, b.byID[id]}
		count++
	}
	b.mu.Unlock()
	budget := r.probes.Deadline().Since(b.now())
	for _, t := range targets[:count] {
		token := token{replica: t.id, round: r}
		if t.replica == nil {
			b.lost(token)
			continue
		}
		if err := b.prober.send(t.replica, token, hint, budget); err != nil {
			b.lost(token)
		}
	}
	timer := time.NewTimer(r.probes.Deadline().Since(b.now()))
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	case <-b.closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// signal wakes the request that waits, if the round is ready.
func (r *round) signal() {
	if !r.isReady && r.probes.Ready() {
		r.isReady = true
		close(r.done)
	}
}
