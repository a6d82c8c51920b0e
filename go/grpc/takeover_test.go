package slackwatergrpc

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/slackwater/slackwater/go/internal/await"
)

// openStreams opens streams that stay open until cancel, or the end of the test.
func (c *client) openStreams(t *testing.T, streams int) (cancel func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	t.Cleanup(cancel)
	for range streams {
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	return cancel
}

// inFlightAt returns the calls in flight at each endpoint, by the snapshot.
func (c *client) inFlightAt(t *testing.T) map[string]uint32 {
	t.Helper()
	at := map[string]uint32{}
	for _, endpoint := range c.channel(t).Snapshot().Endpoints {
		at[endpoint.Address] = endpoint.InFlight
	}
	return at
}

// A new configuration knows the calls in flight, also those that the one before the last has
// picked.
func TestNewConfigurationKnowsTheCallsInFlight(t *testing.T) {
	servers := []*server{serve(t, nil), serve(t, nil)}
	endpoints := stateOfServers(servers).Endpoints
	c := dial(t, configs[len(configs)-1], servers)
	c.connected(t, 2)
	var cancels []func()
	for i, config := range append(configs, `{"key": {"metadata": "x-user"}}`, `{"health": "off"}`) {
		cancels = append(cancels, c.openStreams(t, 5))
		c.configure(t, config, endpoints...)
		at := c.inFlightAt(t)
		for _, s := range servers {
			if got := at[s.address]; got != uint32(s.rif.Load()) {
				t.Errorf("%s: %d calls in flight, and the server has %d", config, got, s.rif.Load())
			}
		}
		if picks := c.channel(t).Snapshot().Picks; len(picks) > 0 {
			t.Errorf("%s: picks %v before the first", config, picks)
		}
		if i == 3 {
			// Streams of the second configuration end in the fifth.
			cancels[1]()
			await.Until(t, "five streams end", func() bool {
				at := c.inFlightAt(t)
				return at[servers[0].address]+at[servers[1].address] == 15 &&
					int64(at[servers[0].address]) == servers[0].rif.Load() &&
					int64(at[servers[1].address]) == servers[1].rif.Load()
			})
		}
	}
	for _, cancel := range cancels {
		cancel()
	}
	c.noneInFlight(t, servers...)
	e := c.channel(t).current()
	await.Until(t, "nothing is left of earlier calls", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.inherited) == 0
	})
}

// When health begins, it knows the calls in flight.
func TestFirstConnectionsKeepTheCallsInFlight(t *testing.T) {
	first, second := serve(t, nil), serve(t, nil)
	called := make(chan struct{})
	c := dial(t, `{"policy": "least_loaded"}`, []*server{first, second}, grpc.WithContextDialer(
		func(ctx context.Context, address string) (net.Conn, error) {
			if address == second.address {
				select {
				case <-called:
				case <-ctx.Done():
				}
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}))
	cancel := c.openStreams(t, 4)
	close(called)
	c.connected(t, 2)
	if got := c.inFlightAt(t)[first.address]; got != 4 {
		t.Errorf("%d calls in flight at the first server, want 4", got)
	}
	// The next ones go to the server that has none.
	end := c.openStreams(t, 4)
	if got := c.inFlightAt(t)[second.address]; got != 4 {
		t.Errorf("%d calls in flight at the second server, want 4", got)
	}
	cancel()
	end()
	c.noneInFlight(t, first, second)
}

// Picks of an engine that has been replaced are made by the one that has taken over.
func TestReplacedEnginePicksNoMore(t *testing.T) {
	tr := newTrial(t, local, &fakePicker{}, &fakePicker{})
	old := tr.engine
	first := tr.pick(t.Context())
	tr.replace(local)
	second := tr.pick(t.Context())
	if got := tr.inFlight(); got != 2 {
		t.Errorf("%d in flight, want 2", got)
	}
	old.mu.Lock()
	picks := old.policy.Counters().Picks
	old.mu.Unlock()
	if got := picks.Total(); got != 1 {
		t.Errorf("%d picks by the replaced engine, want 1", got)
	}
	first.Done(answered)
	second.Done(answered)
	if got := tr.inFlight(); got != 0 {
		t.Errorf("%d in flight, want 0", got)
	}
}

// An engine that is replaced before it has endpoints hands on what it would have taken over.
func TestEngineWithoutEndpointsIsPassedOver(t *testing.T) {
	b := &lb{channel: &Channel{}, metrics: newMetrics(newCounts(), "")}
	var engines []*engine
	for range 3 {
		engines = append(engines, newTrial(t, local).engine)
	}
	picker := &endpointPicker{Picker: &fakePicker{}, endpoint: &endpoint{name: "a"}}
	first, last := engines[0], engines[2]
	first.setReady([]*endpointPicker{picker}, nil)
	if _, _, err := first.pick(balancer.PickInfo{Ctx: t.Context()}, nil); err != nil {
		t.Fatal(err)
	}
	for _, engine := range engines {
		b.replaceLocked(engine)
	}
	last.setReady([]*endpointPicker{picker}, nil)
	b.takeOver(last)
	last.mu.Lock()
	defer last.mu.Unlock()
	if got := last.policy.Fleet().InFlight(last.fleet[picker.endpoint]); got != 1 {
		t.Errorf("%d in flight, want 1", got)
	}
}
