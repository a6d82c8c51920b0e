package httplb

import (
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// napMin is the shortest sleep of the timer: a policy that is never satisfied must not spin.
const napMin = time.Millisecond

// wantsEarlierWake reports whether the policy's next timeout is earlier than the timer's, and notes
// it if so.
func (b *balancer) wantsEarlierWake() bool {
	next, known := b.policy.NextTimeout()
	if !known || b.armed.Known && next >= b.armed.Value {
		return false
	}
	b.armed = policy.Some(next)
	return true
}

// drive handles the policy's timeouts until the balancer is closed.
func (b *balancer) drive() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-b.closed:
			return
		case <-timer.C:
		case <-b.wake:
		}
		now := b.now()
		b.mu.Lock()
		if at, known := b.policy.NextTimeout(); known && at <= now {
			b.policy.Handle(now, policy.Event{Kind: policy.EventTimeout}, b.draw)
		}
		b.unlockAndSend(now)
		// Only now, since until the due probes have left, the next timeout may be in the past.
		b.mu.Lock()
		next, known := b.policy.NextTimeout()
		b.armed = policy.Optional[policy.Instant]{Value: next, Known: known}
		b.mu.Unlock()
		if known {
			timer.Reset(max(next.Since(b.now()), napMin))
		} else {
			timer.Stop()
		}
	}
}
