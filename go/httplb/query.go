package httplb

import (
	"context"
	"net/http"
	"sync"

	"github.com/slackwater/slackwater/go/policy"
)

// attemptsMax is the most attempts of a query that are kept. Further ones may go anywhere.
const attemptsMax = 64

// Query is what the attempts of one query have in common: the replicas that they went to. It is
// safe for concurrent use.
type Query struct {
	// picking is held from one attempt's look at the others until it is one of them, so that two that
	// begin at once differ, too.
	picking sync.Mutex

	mu       sync.Mutex
	attempts []queryAttempt
	inFlight int
}

type queryAttempt struct {
	Attempt
	balancer *balancer
	// redirect is the response that it follows, if it follows one.
	redirect *http.Response
}

// Attempt is one request of a query.
type Attempt struct {
	// Replica is the URL of the replica that it went to.
	Replica string
	// Reason is the rule that decided.
	Reason policy.PickReason
	// HasEnded says that the response's body has ended, or that there was an error.
	HasEnded bool
	// Outcome is how it ended. It has no meaning before.
	Outcome policy.Outcome
}

type queryKey struct{}

// NewQuery returns a context for all attempts of one query, which a layer above a [Transport]
// makes: retries and hedges. Each further request with this context goes to a replica that the
// query has not tried, or fails with [ErrAllTried]. A request that follows a redirect begins anew:
// it may go anywhere. Without this context, each request is a query of its own.
//
//	ctx, query := httplb.NewQuery(request.Context())
//	response, err := client.Do(request.WithContext(ctx))
//	// query.Attempts() says which replica it went to, and why.
func NewQuery(ctx context.Context) (context.Context, *Query) {
	query := new(Query)
	return context.WithValue(ctx, queryKey{}, query), query
}

// Attempts returns the attempts so far, at most the first 64, in their order.
func (q *Query) Attempts() []Attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	attempts := make([]Attempt, len(q.attempts))
	for i := range q.attempts {
		attempts[i] = q.attempts[i].Attempt
	}
	return attempts
}

// queryAfter returns a query whose first attempt has ended.
func queryAfter(first *lease, redirect *http.Response) *Query {
	return &Query{attempts: []queryAttempt{{
		Attempt:  Attempt{Replica: first.replica.given.URL, Reason: first.reason, HasEnded: true},
		balancer: first.balancer,
		redirect: redirect,
	}}}
}

func queryOf(ctx context.Context) *Query {
	query, _ := ctx.Value(queryKey{}).(*Query)
	return query
}

// pick makes one attempt of the query.
func (q *Query) pick(
	b *balancer, request *http.Request, key policy.Optional[policy.KeyHash], hint func() []byte,
) (*lease, error) {
	if q != nil {
		q.picking.Lock()
		defer q.picking.Unlock()
	}
	next := q.next(b, request.Response)
	next.Key = key
	lease, err := b.pick(request.Context(), &next, hint)
	if err != nil {
		return nil, err
	}
	q.began(lease, request.Response)
	return lease, nil
}

// next returns what the policy must know of the next attempt. A nil query has no other attempts,
// and attempts before a redirect have been answered.
func (q *Query) next(b *balancer, redirect *http.Response) policy.Query {
	var next policy.Query
	if q == nil {
		return next
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	isFirst := true
	for i := range q.attempts {
		tried := &q.attempts[i]
		if tried.balancer != b || tried.redirect != redirect {
			continue
		}
		isFirst = false
		// By its URL, since a replica that has left and returned has another name.
		if id, known := b.idOf(tried.Replica); known {
			next.Avoid = append(next.Avoid, id)
		}
	}
	switch {
	case isFirst:
	case q.inFlight > 0:
		next.Attempt = policy.AttemptHedge
	default:
		next.Attempt = policy.AttemptRetry
	}
	return next
}

// began notes an attempt.
func (q *Query) began(l *lease, redirect *http.Response) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight++
	l.query, l.attempt = q, len(q.attempts)
	if len(q.attempts) < attemptsMax {
		q.attempts = append(q.attempts, queryAttempt{
			Attempt:  Attempt{Replica: l.replica.given.URL, Reason: l.reason},
			balancer: l.balancer,
			redirect: redirect,
		})
	}
}

// ended notes the end of an attempt.
func (q *Query) ended(attempt int, outcome policy.Outcome) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
	if attempt < len(q.attempts) {
		q.attempts[attempt].HasEnded = true
		q.attempts[attempt].Outcome = outcome
	}
}
