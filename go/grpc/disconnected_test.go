package slackwatergrpc

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/policy"
)

// seeded makes the draws of new engines repeatable for the rest of a test.
func seeded(t *testing.T, seed uint64) {
	t.Helper()
	before := newDraw
	t.Cleanup(func() { newDraw = before })
	newDraw = func() policy.Draw { return policy.NewSplitMix64(seed) }
}

// broken is the end of a call whose connection is lost.
var broken = balancer.DoneInfo{Err: status.Error(codes.Unavailable, "reset"), BytesSent: true}

// answered is the end of a call that was answered.
var answered = balancer.DoneInfo{BytesSent: true, BytesReceived: true}

// endpointsOf returns the endpoints of some pickers.
func endpointsOf(pickers ...*endpointPicker) (endpoints []*endpoint) {
	for _, picker := range pickers {
		endpoints = append(endpoints, picker.endpoint)
	}
	return endpoints
}

// pickedBy makes a pick, and returns the name of its endpoint and its end.
func (tr *trial) pickedBy(ctx context.Context) (string, func(balancer.DoneInfo)) {
	tr.t.Helper()
	ctx = withCall(ctx, trialTarget, false)
	result := tr.pick(ctx)
	return callOf(ctx).current.Load().endpoint.name, result.Done
}

// An endpoint that loses its connection with each call is ejected like one that fails otherwise.
func TestLostConnectionsCount(t *testing.T) {
	for _, config := range configs {
		t.Run(config, func(t *testing.T) {
			seeded(t, 1)
			synctest.Test(t, func(t *testing.T) {
				children := make([]*fakePicker, 5)
				for i := range children {
					children[i] = &fakePicker{}
				}
				tr := newTrial(t, config, children...)
				defer tr.engine.close()
				last := len(tr.members) - 1
				calls := 0
				for range 10_000 {
					time.Sleep(time.Millisecond)
					name, done := tr.pickedBy(t.Context())
					if name != tr.members[last].endpoint.name {
						done(answered)
						continue
					}
					calls++
					done(broken)
					tr.engine.setReady(tr.members[:last], endpointsOf(tr.members[last]))
					tr.engine.setReady(tr.members, nil)
				}
				// It gets some calls before it is ejected, and then few trials.
				if calls > 40 {
					t.Errorf("%d of 10,000 calls were broken", calls)
				}
			})
		})
	}
}

// An endpoint without a connection gets no call, even if all others are taken out of the choice or
// have been tried.
func TestDisconnectedEndpointGetsNoCalls(t *testing.T) {
	for _, config := range configs {
		tr := newTrial(t, config, &fakePicker{}, &fakePicker{}, &fakePicker{})
		gone := tr.members[2]
		tr.engine.setReady(tr.members[:2], endpointsOf(gone))
		drain := func(places ...int) {
			tr.engine.mu.Lock()
			defer tr.engine.mu.Unlock()
			for _, place := range places {
				id := tr.engine.fleet[tr.members[place].endpoint]
				event := policy.Event{Kind: policy.EventAvailable, Replica: id}
				tr.engine.policy.Handle(tr.engine.now(), event, tr.engine.draw)
			}
		}
		check := func(what string) {
			t.Helper()
			for range 50 {
				ctx := withCall(t.Context(), trialTarget, false)
				for range 4 {
					result := tr.pick(ctx)
					if name := callOf(ctx).current.Load().endpoint.name; name == gone.endpoint.name {
						t.Fatalf("%s, %s: picked %s, which is disconnected", config, what, name)
					}
					result.Done(balancer.DoneInfo{
						Err: status.Error(codes.Unavailable, ""), BytesSent: true, BytesReceived: true,
					})
				}
			}
		}
		check("two are READY")
		drain(0, 1)
		check("the others are taken out")
		if got := tr.inFlight(); got != 0 {
			t.Errorf("%s: %d in flight", config, got)
		}
		tr.engine.setReady(nil, endpointsOf(tr.members...))
		if _, err := tr.picker.Pick(balancer.PickInfo{Ctx: t.Context()}); err != balancer.ErrNoSubConnAvailable {
			t.Errorf("%s: error %v without a READY endpoint", config, err)
		}
	}
}

// Probes to an endpoint without a connection are lost. They are no sign of an overload, so the
// others are probed as before.
func TestDisconnectedEndpointIsNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, `{"health": "off"}`, &fakePicker{}, &fakePicker{}, &fakePicker{})
		defer tr.engine.close()
		// No endpoint has a prober, so the probes of the READY ones are not sent.
		tr.engine.setReady(nil, endpointsOf(tr.members...))
		tr.engine.mu.Lock()
		before := tr.engine.policy.Counters()
		tr.engine.mu.Unlock()
		time.Sleep(time.Minute)
		tr.engine.mu.Lock()
		defer tr.engine.mu.Unlock()
		counters := tr.engine.policy.Counters()
		if lost := counters.ProbesLost - before.ProbesLost; lost < 10 {
			t.Errorf("%d probes lost", lost)
		}
		if unsent := counters.ProbesUnsent - before.ProbesUnsent; unsent != 0 {
			t.Errorf("%d probes unsent", unsent)
		}
	})
}

// A call that outlives the connection, as after GOAWAY, stays in flight at its endpoint.
func TestCallsInFlightSurviveAReconnect(t *testing.T) {
	tr := newTrial(t, local, &fakePicker{}, &fakePicker{})
	first, second := tr.pick(t.Context()), tr.pick(t.Context())
	tr.engine.setReady(nil, endpointsOf(tr.members...))
	tr.engine.setReady(tr.members, nil)
	if got := tr.inFlight(); got != 2 {
		t.Errorf("%d in flight, want 2", got)
	}
	third := tr.pick(t.Context())
	first.Done(answered)
	second.Done(answered)
	if got := tr.inFlight(); got != 1 {
		t.Errorf("%d in flight, want 1", got)
	}
	third.Done(answered)
	if got := tr.inFlight(); got != 0 {
		t.Errorf("%d in flight, want 0", got)
	}
}

func TestExplanationOfADisconnectedEndpoint(t *testing.T) {
	tr := newTrial(t, `{"explain": 1, "probe": {"transport": "none"}}`, &fakePicker{}, &fakePicker{})
	tr.engine.setReady(tr.members[:1], endpointsOf(tr.members[1]))
	tr.pick(t.Context())
	channel := &Channel{engine: tr.engine}
	picks := channel.Picks()
	if len(picks) != 1 || len(picks[0].Out) != 1 || picks[0].Out[0] != (Out{Endpoint: "b", Reason: "disconnected"}) {
		t.Errorf("picks %+v", picks)
	}
	if got := channel.Snapshot().Endpoints; len(got) != 1 || got[0].Address != "a" {
		t.Errorf("endpoints %+v", got)
	}
}

// cutting is a listener whose connections can be cut.
type cutting struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func (l *cutting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

// cut closes all connections.
func (l *cutting) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		conn.Close()
	}
	l.conns = nil
}

// A server that crashes with each call, and is back at once, is ejected.
func TestServerThatCutsItsConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cuts := &cutting{Listener: listener}
	bad := serveListener(t, cuts, func(context.Context) error {
		cuts.cut()
		return status.Error(codes.Unavailable, "never arrives")
	}, true, func(*grpc.Server) {})
	c := dial(t, `{}`, []*server{serve(t, after(time.Millisecond)), serve(t, after(time.Millisecond)), bad})
	c.connected(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	await.Until(t, "the server is ejected", func() bool {
		for range 50 {
			_, _ = c.call(ctx)
		}
		for _, endpoint := range c.channel(t).Snapshot().Endpoints {
			if endpoint.Address == bad.address {
				return endpoint.State == "ejected"
			}
		}
		return false
	})
}

// A choice that falls on an endpoint without a connection is made again, and is one pick.
func TestPickThatIsMadeAgainCountsOnce(t *testing.T) {
	parsed, err := parseConfig([]byte(`{"policy": "random", "probe": {"transport": "none"}}`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(parsed, newMetrics(newCounts(), ""), false)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	up, down := &endpoint{name: "up:1"}, &endpoint{name: "down:1"}
	e.setReady([]*endpointPicker{{endpoint: up}, {endpoint: down}}, nil)
	e.setReady([]*endpointPicker{{endpoint: up}}, []*endpoint{down})
	e.mu.Lock()
	drained := policy.Event{Kind: policy.EventAvailable, Replica: e.fleet[up]}
	e.policy.Handle(e.now(), drained, e.draw)
	e.mu.Unlock()
	for range 100 {
		picked, _, err := e.pick(balancer.PickInfo{Ctx: t.Context()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		picked.end(policy.OutcomeSuccess)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	counted := uint64(0)
	for _, picks := range e.countersLocked().Picks.All() {
		counted += picks
	}
	if counted != 100 {
		t.Errorf("%d picks", counted)
	}
}
