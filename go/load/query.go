package load

import (
	"sync"

	"github.com/slackwater/slackwater/go/policy"
)

// Query is a query that counts towards its replica's requests in flight until it ends. It is safe
// for concurrent use.
type Query struct {
	load *Load

	mu      sync.Mutex
	arrival Arrival
	// The end according to the head, if that was ready.
	headAt  policy.Instant
	byHead  Outcome
	hasHead bool
	ended   bool
}

// Head notes that the response's head is ready: latency ends here. After another outcome than
// [Success] there is no sample, and the query ends in that way however its body ends. Only the
// first call counts.
func (q *Query) Head(outcome Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hasHead || q.ended {
		return
	}
	q.headAt, q.byHead, q.hasHead = q.load.now(), outcome.known(), true
	q.load.tracker.Head(q.headAt, &q.arrival, q.byHead)
}

// End ends the query, at the last byte of its response. Only the first call counts, so it can be
// deferred as [Cancelled] or [Failed] for the paths that do not call it themselves.
func (q *Query) End(outcome Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	q.ended = true
	outcome = outcome.known()
	if q.byHead != Success {
		outcome = q.byHead
	}
	q.load.tracker.Finish(q.load.now(), q.arrival, outcome)
	q.load.counts[outcome].Add(1)
}

// Carried returns the load to send with this query's response, once its head is ready: RIF without
// this query, capacity, and cost. It is cheaper than [Load.Report] and takes no lock of the
// replica's; latency is left to probes.
func (q *Query) Carried() policy.LoadReport {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.headAt // saves another reading of the clock
	if !q.hasHead {
		at = q.load.now()
	}
	report := q.load.carried(at)
	if !q.ended && report.RIF > 0 {
		report.RIF--
	}
	return report
}

// known returns an outcome that is one of the three.
func (o Outcome) known() Outcome { return min(o, Cancelled) }
