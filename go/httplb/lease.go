package httplb

import (
	"sync/atomic"

	"github.com/slackwater/slackwater/go/policy"
)

// lease is a request on its way to a replica. It ends exactly once.
type lease struct {
	balancer *balancer
	replica  *replica
	reason   policy.PickReason
	// ticket is used under the balancer's lock.
	ticket   policy.Ticket
	hasEnded atomic.Bool
	query    *Query
	attempt  int
}

// head takes in the head of a response, with the load that came with it, if any: latency ends now.
// If the body is empty, the request ends, too.
func (l *lease) head(outcome policy.Outcome, carried *policy.LoadReport, isLast bool) {
	if isLast && l.hasEnded.Swap(true) {
		return
	}
	b := l.balancer
	now := b.now()
	b.mu.Lock()
	if carried != nil {
		b.policy.Handle(now, policy.Event{
			Kind: policy.EventCarriedReport, Replica: l.replica.id, Load: carried,
		}, b.draw)
	}
	b.policy.HandleHead(now, &l.ticket, outcome)
	if isLast {
		b.inFlight--
		b.policy.HandleDone(now, l.ticket, outcome)
	}
	b.unlockAndSend(now)
	if isLast {
		l.query.ended(l.attempt, outcome)
	}
}

// finish ends the request. Only the first call counts.
func (l *lease) finish(outcome policy.Outcome) {
	if l.hasEnded.Swap(true) {
		return
	}
	b := l.balancer
	now := b.now()
	b.mu.Lock()
	b.inFlight--
	b.policy.HandleDone(now, l.ticket, outcome)
	b.unlockAndSend(now)
	l.query.ended(l.attempt, outcome)
}
