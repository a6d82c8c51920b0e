package httplb

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/slackwater/slackwater/go/internal/ints"
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
	// isConnecting says that the base waits for a connection.
	isConnecting atomic.Bool
	query        *Query
	attempt      int
}

// traced returns a context by which the base notes isConnecting, because many errors of a TLS
// handshake do not show that they are of one. A base may wait more than once, since an idle
// connection may turn out to be closed.
func (l *lease) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { l.isConnecting.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { l.isConnecting.Store(false) },
	})
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
		// It leaves out this request, which is in flight here until it ends.
		carried.RIF = ints.Add(carried.RIF, 1)
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
