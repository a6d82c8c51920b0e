package slackwatergrpc

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/policy"
)

const unaryCall = "/grpc.testing.TestService/UnaryCall"

func newHedger(t *testing.T, options HedgeOptions) *Hedger {
	t.Helper()
	options.Methods = []string{unaryCall}
	h, err := NewHedger(options)
	if err != nil {
		t.Fatal(err)
	}
	// Enough for the first hedge.
	h.saved = millionths
	return h
}

func TestHedgeOptions(t *testing.T) {
	method := []string{unaryCall}
	for _, options := range []HedgeOptions{
		{}, {Methods: []string{"UnaryCall"}}, {Methods: []string{"/a/b/c"}},
		{Methods: method, Delay: -1}, {Methods: method, Budget: -0.1}, {Methods: method, Budget: 1.1},
		{Methods: method, Budget: math.NaN()},
	} {
		if _, err := NewHedger(options); err == nil {
			t.Errorf("%+v is accepted", options)
		}
	}
}

// ends records the outcomes of calls by their endpoints.
type ends struct {
	policy.Policy
	mu  sync.Mutex
	all []policy.Outcome
}

func (e *ends) HandleDone(now policy.Instant, ticket policy.Ticket, outcome policy.Outcome) {
	e.mu.Lock()
	e.all = append(e.all, outcome)
	e.mu.Unlock()
	e.Policy.HandleDone(now, ticket, outcome)
}

func (e *ends) take() []policy.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := slices.Sorted(slices.Values(e.all))
	e.all = nil
	return taken
}

func watchEnds(t *testing.T, c *client) *ends {
	t.Helper()
	e := c.channel(t).current()
	e.mu.Lock()
	defer e.mu.Unlock()
	watched := &ends{Policy: e.policy}
	e.policy = watched
	return watched
}

// pairOfServers are two servers that handle calls by first, and hedges by second.
type pairOfServers struct {
	servers       []*server
	first, second func(context.Context) error
	calls         atomic.Int64
	// addresses are those of the servers that got the call, and its hedge.
	mu        sync.Mutex
	addresses [2]string
}

// markHedge tells the servers which calls are hedges.
func markHedge(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if callOf(ctx).isHedge {
		ctx = metadata.AppendToOutgoingContext(ctx, "hedge", "1")
	}
	return invoke(ctx, method, request, reply, cc, opts...)
}

func servePair(t *testing.T) *pairOfServers {
	t.Helper()
	p := &pairOfServers{}
	for range 2 {
		var s *server
		ready := make(chan struct{})
		s = serve(t, func(ctx context.Context) error {
			<-ready
			isHedge := len(metadata.ValueFromIncomingContext(ctx, "hedge")) > 0
			p.mu.Lock()
			p.addresses[number(isHedge)] = s.address
			p.mu.Unlock()
			p.calls.Add(1)
			_ = grpc.SetHeader(ctx, metadata.Pairs("from", s.address))
			_ = grpc.SetTrailer(ctx, metadata.Pairs("from", s.address))
			if isHedge {
				// The hedge may be faster than a call that is on its way.
				p.await(t, 2)
				return p.second(ctx)
			}
			return p.first(ctx)
		})
		close(ready)
		p.servers = append(p.servers, s)
	}
	return p
}

// pairCall makes a call that is hedged.
func (p *pairOfServers) pairCall(t *testing.T, c *client) (from string, err error) {
	t.Helper()
	p.calls.Store(0)
	p.addresses = [2]string{}
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	var header, trailer metadata.MD
	var at peer.Peer
	var finished []codes.Code
	reply, err := c.UnaryCall(ctx, &grpc_testing.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer),
		grpc.Peer(&at), grpc.OnFinish(func(with error) { finished = append(finished, status.Code(with)) }))
	if !slices.Equal(finished, []codes.Code{status.Code(err)}) {
		t.Errorf("finished with %v, want once with %v", finished, err)
	}
	if err != nil {
		return at.Addr.String(), err
	}
	from = reply.GetServerId()
	if got := header.Get("from"); !slices.Equal(got, []string{from}) {
		t.Errorf("header of %v, want %v", got, from)
	}
	if got := trailer.Get("from"); !slices.Equal(got, []string{from}) {
		t.Errorf("trailer of %v, want %v", got, from)
	}
	if at.Addr.String() != from {
		t.Errorf("peer %v, want %v", at.Addr, from)
	}
	return from, nil
}

func TestHedges(t *testing.T) {
	fails := func(context.Context) error { return status.Error(codes.Unavailable, "out of order") }
	succeeds := func(context.Context) error { return nil }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	hedge := func(h *Hedger) grpc.DialOption { return grpc.WithChainUnaryInterceptor(h.Intercept) }
	for name, options := range map[string]func(*Hedger) []grpc.DialOption{
		"alone":                   func(h *Hedger) []grpc.DialOption { return []grpc.DialOption{hedge(h)} },
		"before the dial options": func(h *Hedger) []grpc.DialOption { return append([]grpc.DialOption{hedge(h)}, DialOptions()...) },
		"after the dial options":  func(h *Hedger) []grpc.DialOption { return append(DialOptions(), hedge(h)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHedger(t, HedgeOptions{Delay: time.Millisecond, Budget: 1})
			p := servePair(t)
			c := dial(t, `{"policy": "random", "health": "off"}`, p.servers,
				append(options(h), grpc.WithChainUnaryInterceptor(markHedge))...)
			c.connected(t, 2)
			watched := watchEnds(t, c)
			for _, test := range []struct {
				name          string
				first, second func(context.Context) error
				// usesFirst says that the answer of the first server is used.
				usesFirst bool
				want      codes.Code
				outcomes  []policy.Outcome
			}{
				{"the first hangs", hangs, succeeds, false, codes.OK,
					[]policy.Outcome{policy.OutcomeSuccess, policy.OutcomeDropped}},
				{"the first fails late", func(context.Context) error {
					p.await(t, 2)
					return status.Error(codes.Internal, "broken")
				}, func(context.Context) error {
					await.Until(t, "the first has failed", func() bool { return watched.count() == 1 })
					return nil
				}, false, codes.OK, []policy.Outcome{policy.OutcomeSuccess, policy.OutcomeFailed}},
				{"the hedge hangs", func(context.Context) error { p.await(t, 2); return nil }, hangs, true, codes.OK,
					[]policy.Outcome{policy.OutcomeSuccess, policy.OutcomeDropped}},
				{"the hedge fails", func(context.Context) error {
					p.await(t, 2)
					await.Until(t, "the hedge has failed", func() bool { return watched.count() == 1 })
					return nil
				}, fails, true, codes.OK, []policy.Outcome{policy.OutcomeSuccess, policy.OutcomeFailed}},
				{"both fail", func(context.Context) error {
					p.await(t, 2)
					return status.Error(codes.Internal, "broken")
				}, fails, true, codes.Internal, []policy.Outcome{policy.OutcomeFailed, policy.OutcomeFailed}},
				{"the hedge's answer is about the call", hangs, func(context.Context) error {
					return status.Error(codes.NotFound, "nothing there")
				}, false, codes.NotFound, []policy.Outcome{policy.OutcomeSuccess, policy.OutcomeDropped}},
			} {
				p.first, p.second = test.first, test.second
				before := h.Counts()
				from, err := p.pairCall(t, c)
				if status.Code(err) != test.want {
					t.Errorf("%s: %v, want %v", test.name, err, test.want)
				}
				if p.calls.Load() != 2 || p.addresses[0] == p.addresses[1] {
					t.Fatalf("%s: the calls went to %v", test.name, p.addresses)
				}
				if used := p.addresses[number(!test.usesFirst)]; from != used {
					t.Errorf("%s: the answer of %s is used, of %v", test.name, from, p.addresses)
				}
				if got := watched.take(); !slices.Equal(got, slices.Sorted(slices.Values(test.outcomes))) {
					t.Errorf("%s: outcomes %v, want %v", test.name, got, test.outcomes)
				}
				after := h.Counts()
				if after.Sent-before.Sent != 1 || after.Won-before.Won != uint64(number(!test.usesFirst)) {
					t.Errorf("%s: counts %+v and then %+v", test.name, before, after)
				}
				// The server of the loser learns of it a little later.
				c.noneInFlight(t, p.servers...)
			}
		})
	}
}

// A call that an interceptor makes on another channel is no attempt of the call, nor of its hedge.
func TestCallsOnAnotherChannelAreNotOfThePair(t *testing.T) {
	for name, others := range map[string][]grpc.DialOption{"tracked": DialOptions(), "not tracked": nil} {
		t.Run(name, func(t *testing.T) {
			other := dial(t, `{}`, []*server{serve(t, nil)}, others...)
			callOther := func(
				ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
				invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
			) error {
				before, cancel := context.WithTimeout(ctx, await.Patience)
				defer cancel()
				if _, err := other.call(before); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				return invoke(ctx, method, request, reply, cc, opts...)
			}
			h := newHedger(t, HedgeOptions{Delay: time.Millisecond, Budget: 1})
			p := servePair(t)
			p.first = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			p.second = func(context.Context) error { return nil }
			c := dial(t, `{"policy": "random", "health": "off"}`, p.servers,
				grpc.WithChainUnaryInterceptor(h.Intercept, markHedge, callOther))
			c.connected(t, 2)
			for range 20 {
				if _, err := p.pairCall(t, c); err != nil {
					t.Fatal(err)
				}
				if p.addresses[0] == p.addresses[1] {
					t.Fatalf("the calls went to %v", p.addresses)
				}
				c.noneInFlight(t, p.servers...)
			}
		})
	}
}

func number(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

func (e *ends) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.all)
}

// await waits until this many calls have arrived.
func (p *pairOfServers) await(t *testing.T, calls int64) {
	await.Until(t, "both calls are there", func() bool { return p.calls.Load() >= calls })
}

// Without another endpoint there is no hedge, and it costs nothing of the budget.
func TestNoHedgeWithoutAnotherEndpoint(t *testing.T) {
	h := newHedger(t, HedgeOptions{Delay: time.Millisecond, Budget: 1})
	for _, servers := range []int{1, 2} {
		released := make(chan struct{})
		all := []*server{serve(t, func(context.Context) error { <-released; return nil })}
		if servers == 2 {
			// It drains, so a hedge does not go there.
			all = append(all, serve(t, nil))
			all[1].draining.Store(true)
		}
		c := dial(t, `{"explain": 8}`, all, grpc.WithChainUnaryInterceptor(h.Intercept))
		c.connected(t, servers)
		if servers == 2 {
			await.Until(t, "it drains", func() bool {
				for _, endpoint := range c.channel(t).Snapshot().Endpoints {
					if endpoint.State == "draining" {
						return true
					}
				}
				return false
			})
		}
		h.mu.Lock()
		h.saved = millionths
		h.mu.Unlock()
		done := make(chan string)
		go func() { done <- c.mustCall(t) }()
		await.Until(t, "a hedge was tried", func() bool {
			e := c.channel(t).current()
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.policy.Counters().NoReplica > 0
		})
		close(released)
		if from := <-done; from != all[0].address {
			t.Errorf("answered by %s", from)
		}
		if counts := h.Counts(); counts.Sent != 0 {
			t.Errorf("counts %+v", counts)
		}
		h.mu.Lock()
		if h.saved != 2*millionths {
			t.Errorf("saved %d", h.saved)
		}
		h.mu.Unlock()
	}
}

// A pick of a hedge is explained as one.
func TestHedgeIsExplained(t *testing.T) {
	h := newHedger(t, HedgeOptions{Delay: time.Millisecond, Budget: 1})
	p := servePair(t)
	p.first = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	p.second = func(context.Context) error { return nil }
	c := dial(t, `{"explain": 8}`, p.servers, grpc.WithChainUnaryInterceptor(h.Intercept, markHedge))
	c.connected(t, 2)
	if _, err := p.pairCall(t, c); err != nil {
		t.Fatal(err, h.Counts(), c.channel(t).Picks(), c.channel(t).Snapshot(), p.addresses)
	}
	picks := c.channel(t).Picks()
	if len(picks) != 2 || picks[0].Hedge || !picks[1].Hedge || picks[1].Retry {
		t.Errorf("picks %v", picks)
	}
	c.noneInFlight(t, p.servers...)
}

// Hedges under load leave nothing in flight, and every call is answered.
func TestHedgesUnderLoad(t *testing.T) {
	h := newHedger(t, HedgeOptions{Delay: 2 * time.Millisecond, Budget: 0.5})
	var calls atomic.Int64
	handle := func(ctx context.Context) error {
		return after(time.Duration(calls.Add(1)%5) * time.Millisecond)(ctx)
	}
	servers := []*server{serve(t, handle), serve(t, handle), serve(t, handle)}
	c := dial(t, `{}`, servers, append(DialOptions(), grpc.WithChainUnaryInterceptor(h.Intercept))...)
	c.connected(t, 3)
	if _, failed := c.load(t, 8, 1000, nil); len(failed) > 0 {
		t.Errorf("failed calls: %v", failed)
	}
	c.noneInFlight(t, servers...)
	if counts := h.Counts(); counts.Calls != 1000 || counts.Sent == 0 || counts.Sent > 500+10 {
		t.Errorf("counts %+v", counts)
	}
}

// timed makes calls in virtual time, of which the first takes first and the hedge takes hedge.
func timed(t *testing.T, h *Hedger, first, hedge time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	reply := &grpc_testing.SimpleResponse{}
	err := h.Intercept(t.Context(), unaryCall, nil, reply, new(grpc.ClientConn), func(
		ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption,
	) error {
		call, takes := callOf(ctx), first
		if call.isHedge {
			takes = hedge
		}
		call.tried.add(nil, policy.ReplicaID(number(call.isHedge)), call.isHedge)
		return after(takes)(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// The delay is learned from 64 calls on, and is their 95th percentile, or a higher one if the
// budget is lower.
func TestDelayOfHedgesIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		testLearnedDelay(t, 0, 20*time.Millisecond)
		testLearnedDelay(t, 0.2, 20*time.Millisecond)
		testLearnedDelay(t, 0.01, 40*time.Millisecond)
	})
}

func testLearnedDelay(t *testing.T, budget float64, delay time.Duration) {
	t.Helper()
	h := newHedger(t, HedgeOptions{Budget: budget})
	for i := range latenciesMin {
		// One in sixteen takes 20 ms, the first 40 ms, the others 10 ms.
		takes := 10 * time.Millisecond
		switch {
		case i == 0:
			takes = 40 * time.Millisecond
		case i%16 == 0:
			takes = 20 * time.Millisecond
		}
		if took := timed(t, h, takes, 0); took != takes {
			t.Fatalf("call %d took %v", i, took)
		}
	}
	if counts := h.Counts(); counts != (HedgeCounts{Calls: latenciesMin}) {
		t.Errorf("counts %+v before the delay is known", counts)
	}
	want := delay + 5*time.Millisecond
	if took := timed(t, h, time.Second, 5*time.Millisecond); took != want {
		t.Errorf("with budget %v, a late call took %v, want %v", budget, took, want)
	}
	if counts := h.Counts(); counts.Sent != 1 || counts.Won != 1 {
		t.Errorf("counts %+v", counts)
	}
}

func TestBudgetOfHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedger(t, HedgeOptions{Delay: time.Millisecond})
		// Every third call is late, so that the method does not count as slow.
		for i := range 600 {
			first := time.Duration(0)
			if i%3 == 0 {
				first = 3 * time.Millisecond
			}
			timed(t, h, first, time.Second)
		}
		// One was saved, and each 20 calls up to the last late one pay for one. A late call without
		// a hedge is looked at after 1 ms and 2 ms.
		const sent = 1 + 598/20
		want := HedgeCounts{Calls: 600, Sent: sent, WithheldBudget: 2 * (200 - sent)}
		if counts := h.Counts(); counts != want {
			t.Errorf("counts %+v, want %+v", counts, want)
		}
	})
}

func TestNoHedgesWhileMostCallsAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHedger(t, HedgeOptions{Delay: time.Millisecond, Budget: 1})
		for range 64 {
			timed(t, h, 1500*time.Microsecond, time.Second)
		}
		if counts := h.Counts(); counts.Sent != 32 || counts.WithheldSlow != 32 {
			t.Errorf("counts %+v, want 32 hedges of 64", counts)
		}
	})
}

// Calls of other methods are passed on as they are.
func TestOtherMethodsAreNotHedged(t *testing.T) {
	h := newHedger(t, HedgeOptions{Delay: time.Nanosecond, Budget: 1})
	for _, test := range []struct {
		method string
		reply  any
	}{{"/grpc.testing.TestService/EmptyCall", &grpc_testing.Empty{}}, {unaryCall, "no message"}} {
		passed := false
		ctx := t.Context()
		err := h.Intercept(ctx, test.method, nil, test.reply, new(grpc.ClientConn), func(
			with context.Context, method string, _, reply any, _ *grpc.ClientConn, _ ...grpc.CallOption,
		) error {
			passed = with == ctx && method == test.method && reply == test.reply
			return nil
		})
		if err != nil || !passed {
			t.Errorf("%s: %v", test.method, err)
		}
	}
	if counts := h.Counts(); counts != (HedgeCounts{}) {
		t.Errorf("counts %+v", counts)
	}
}
