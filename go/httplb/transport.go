package httplb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// Errors of a request that is not sent.
var (
	// ErrNoReplicas says that the set of replicas is empty.
	ErrNoReplicas = errors.New("httplb: no replicas: the set is empty")
	// ErrAllTried says that the query has tried every replica: see [NewQuery]. For an attempt while
	// another is in flight, it is every available replica.
	ErrAllTried = errors.New("httplb: no replica is left: the query has tried all of them")
	// ErrClosed says that the transport is closed.
	ErrClosed = errors.New("httplb: the transport is closed")
)

// Transport is an [http.RoundTripper] that sends each request to one of a set of replicas. It is
// safe for concurrent use. [New] returns one; the zero value is not usable. Close it when it is no
// longer used.
type Transport struct {
	options  *options
	balancer *balancer
}

// New returns a transport over these replicas. There may be none until [Transport.SetReplicas] is
// called; requests fail with [ErrNoReplicas] meanwhile. The error says which replica or option is
// wrong.
//
// The transport has one goroutine for timers and, for probes over UDP, one for each family of
// addresses. [Transport.Close] ends them.
func New(replicas []Replica, given ...Option) (*Transport, error) {
	o, err := newOptions(given)
	if err != nil {
		return nil, fmt.Errorf("httplb: %w", err)
	}
	parsed, err := parseReplicas(replicas, o)
	if err != nil {
		return nil, err
	}
	p, err := policy.New(o.policy, o.settings)
	if err != nil {
		return nil, fmt.Errorf("httplb: %w", err)
	}
	if p, err = health.Guard(p, o.health); err != nil {
		return nil, fmt.Errorf("httplb: %w", err)
	}
	if o.key.of != nil {
		if p, err = keys.Wrap(p, o.key.settings); err != nil {
			return nil, fmt.Errorf("httplb: %w", err)
		}
	}
	b := newBalancer(p, o.seed.Or(rand.Uint64()), o.explanations)
	switch o.probes {
	case probesUDP:
		if b.prober, err = newUDPProber(b, o); err != nil {
			return nil, fmt.Errorf("httplb: %w", err)
		}
	case probesHTTP:
		b.prober = newHTTPProber(b, o)
	}
	t := &Transport{options: o, balancer: b}
	if err := b.setReplicas(parsed); err != nil {
		return nil, errors.Join(fmt.Errorf("httplb: %w", err), b.prober.close())
	}
	b.driven.Go(b.drive)
	return t, nil
}

func parseReplicas(given []Replica, o *options) ([]*replica, error) {
	if len(given) > policy.MaxReplicas {
		return nil, fmt.Errorf("httplb: %d replicas: at most %d are allowed", len(given), policy.MaxReplicas)
	}
	replicas := make([]*replica, 0, len(given))
	known := make(map[string]bool, len(given))
	for _, g := range given {
		r, err := parseReplica(g, o.probes, o.probePath)
		if err != nil {
			return nil, fmt.Errorf("httplb: %w", err)
		}
		if known[g.URL] {
			return nil, fmt.Errorf("httplb: replica %q is there twice", g.URL)
		}
		known[g.URL] = true
		replicas = append(replicas, r)
	}
	return replicas, nil
}

// SetReplicas replaces the set of replicas. Those that stay keep what is known about them. Those
// that leave get no further requests; their requests in flight continue. After an error nothing has
// changed. It fails with [ErrClosed] once the transport is closed.
func (t *Transport) SetReplicas(replicas []Replica) error {
	parsed, err := parseReplicas(replicas, t.options)
	if err != nil {
		return err
	}
	return t.balancer.setReplicas(parsed)
}

// RoundTrip sends a request to one of the replicas. The response's Request is the request as it was
// given; its header x-slackwater-load is taken out. The request is in flight until the response's
// body ends or is closed, or the request's context ends.
//
// A replica that cannot be connected to has not seen the request. It then goes to another one,
// once, if it has no body or [http.Request.GetBody].
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	query := queryOf(request.Context())
	lease, err := t.pick(query, request)
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	response, outcome, err := t.attempt(request, lease)
	if outcome != policy.OutcomeNoConnection {
		return response, err
	}
	again, ok := sameAgain(request)
	if !ok {
		return nil, err
	}
	if query == nil {
		query = queryAfter(lease, request.Response)
	}
	if lease, failed := t.pick(query, again); failed == nil {
		if response, _, err = t.attempt(again, lease); response != nil {
			response.Request = request
		}
	} else if again.Body != nil {
		_ = again.Body.Close()
	}
	return response, err
}

// sameAgain returns a request that can be sent after an attempt that sent nothing, or false if its
// body cannot be read again.
func sameAgain(request *http.Request) (*http.Request, bool) {
	if request.Body == nil || request.Body == http.NoBody {
		return request, true
	}
	if request.GetBody == nil {
		return nil, false
	}
	body, err := request.GetBody()
	if err != nil {
		return nil, false
	}
	again := request.WithContext(request.Context())
	again.Body = body
	return again, true
}

// attempt sends a request to the replica of a lease. Its outcome has a meaning only with an error.
func (t *Transport) attempt(request *http.Request, lease *lease) (*http.Response, policy.Outcome, error) {
	// After a panic of the base, this ends the request. Otherwise it has ended, or its body ends it.
	handedOn := false
	defer func() {
		if !handedOn {
			lease.finish(policy.OutcomeDropped)
		}
	}()
	ctx := request.Context()
	if lease.replica.scheme == "https" {
		ctx = lease.traced(ctx)
	}
	sent, body := outgoingRequest(ctx, request, lease.replica)
	response, err := t.options.base.RoundTrip(sent)
	if err == nil && response == nil {
		err = errors.New("httplb: the base returned neither a response nor an error")
	}
	if err != nil {
		outcome := outcomeOfError(ctx, err)
		switch {
		case body != nil && body.hasFailed.Load() || !isWellFormed(request):
			outcome = policy.OutcomeDropped
		case lease.isConnecting.Load() && endOf(ctx) == nil:
			outcome = policy.OutcomeNoConnection
		}
		lease.finish(outcome)
		return nil, outcome, err
	}
	handedOn = true
	t.leaseBody(request, response, lease)
	return response, policy.OutcomeSuccess, nil
}

// pick picks a replica for a request of a query, which may be nil.
func (t *Transport) pick(query *Query, request *http.Request) (*lease, error) {
	ctx := request.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-t.balancer.closed:
		return nil, ErrClosed
	default:
	}
	if request.URL == nil {
		return nil, errors.New("httplb: the request has no URL")
	}
	key := t.options.key.hash(request)
	return query.pick(t.balancer, request, key, func() []byte {
		if t.options.hint == nil {
			return nil
		}
		return t.options.hint(request)
	})
}

// outgoingRequest returns the request to a replica, and its body if that is watched. A round
// tripper must not change the request that it is given.
func outgoingRequest(
	ctx context.Context, request *http.Request, to *replica,
) (*http.Request, *requestBody) {
	sent := request.WithContext(ctx)
	url := *request.URL
	if sent.Host == "" {
		sent.Host = url.Host
	}
	url.Scheme, url.Host = to.scheme, to.host
	sent.URL = &url
	if request.Body == nil || request.Body == http.NoBody {
		return sent, nil
	}
	body := &requestBody{ReadCloser: request.Body}
	sent.Body = body
	return sent, body
}

// leaseBody makes the end of the response's body the end of the request.
func (t *Transport) leaseBody(request *http.Request, response *http.Response, lease *lease) {
	outcome := outcomeOfHead(response)
	var carried *policy.LoadReport
	if report, found, err := probe.TakeCarried(response.Header); found && err == nil {
		carried = &report
	}
	response.Request = request
	isTunnel := response.StatusCode == http.StatusSwitchingProtocols
	isLast := !isTunnel && hasNoBody(request, response)
	lease.head(outcome, carried, isLast)
	if isLast {
		return
	}
	if tunnel, ok := response.Body.(interface {
		Read([]byte) (int, error)
		Write([]byte) (int, error)
		Close() error
	}); ok && isTunnel {
		response.Body = &leasedTunnel{ReadWriteCloser: tunnel, lease: lease}
		return
	}
	body := &leasedBody{
		inner:    response.Body,
		lease:    lease,
		response: response,
		ctx:      request.Context(),
		byHead:   outcome,
		left:     lengthOf(response),
	}
	body.watch()
	response.Body = body
}

// CloseIdleConnections closes idle connections of the base, as [http.Client.CloseIdleConnections]
// wants it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.options.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Close ends the transport's goroutines, and probes no more. Requests in flight continue; new ones
// fail with [ErrClosed]. It closes idle connections unless the base is the caller's. It is safe to
// call it more than once.
func (t *Transport) Close() error {
	first, err := t.balancer.close()
	if first && t.options.ownsBase {
		t.CloseIdleConnections()
	}
	return err
}
