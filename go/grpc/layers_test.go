package slackwatergrpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/grpc/load"
	"github.com/slackwater/slackwater/go/internal/await"
	replica "github.com/slackwater/slackwater/go/load"
)

// Client-side health checking of gRPC takes a server out, whatever it reports of its load.
func TestClientSideHealthChecking(t *testing.T) {
	sick, sound := serveWithHealth(t), serve(t, nil)
	c := dial(t, `{}`, []*server{sick.server, sound}, grpc.WithDefaultServiceConfig(`{
		"loadBalancingConfig": [{"slackwater": {}}],
		"healthCheckConfig": {"serviceName": "search"}
	}`))
	// A server without the health service counts as healthy.
	sick.health.SetServingStatus("search", grpc_health_v1.HealthCheckResponse_SERVING)
	c.connected(t, 2)
	sick.health.SetServingStatus("search", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	c.connected(t, 1)
	before := sick.calls.Load()
	c.load(t, 4, 100, nil)
	if got := sick.calls.Load() - before; got != 0 {
		t.Errorf("the sick server got %d calls", got)
	}
	sick.health.SetServingStatus("search", grpc_health_v1.HealthCheckResponse_SERVING)
	c.connected(t, 2)
	await.Until(t, "it gets calls again", func() bool { return c.mustCall(t) == sick.address })
}

type healthServer struct {
	*server
	health *health.Server
}

func serveWithHealth(t *testing.T) *healthServer {
	t.Helper()
	h := &healthServer{health: health.NewServer()}
	h.health.SetServingStatus("search", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	h.server = serveServices(t, "127.0.0.1:0", nil, true, func(s *grpc.Server) {
		grpc_health_v1.RegisterHealthServer(s, h.health)
	})
	return h
}

// A channel may be closed at any time: with calls, probes and connection attempts in flight.
func TestCloseUnderLoad(t *testing.T) {
	for _, config := range configs {
		servers := []*server{serve(t, after(time.Millisecond)), serve(t, after(time.Millisecond))}
		for range 5 {
			c := dial(t, config, servers)
			var calls sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			for range 4 {
				calls.Go(func() {
					for {
						_, err := c.call(ctx)
						if code := status.Code(err); code == codes.Canceled || code == codes.DeadlineExceeded {
							return
						}
					}
				})
			}
			before := servers[0].calls.Load() + servers[1].calls.Load()
			await.Until(t, "some calls", func() bool {
				return servers[0].calls.Load()+servers[1].calls.Load() > before+20
			})
			c.cc.Close()
			calls.Wait()
			if ctx.Err() != nil {
				t.Error("calls go on after the channel was closed")
			}
			cancel()
		}
	}
	if left := Channels(); len(left) > 0 {
		t.Errorf("%d balancers are left", len(left))
	}
}

// Servers whose connections are made a little later than the first ones are not treated as servers
// that have just started.
func TestFirstConnectionsDoNotWarmUp(t *testing.T) {
	before := settleMax
	t.Cleanup(func() { settleMax = before })
	settleMax = await.Patience
	slow, fast := serve(t, after(100*time.Millisecond)), serve(t, after(2*time.Millisecond))
	slow.latencyNS.Store(int64(100 * time.Millisecond))
	fast.latencyNS.Store(int64(2 * time.Millisecond))
	var first atomic.Bool
	called := make(chan struct{})
	c := dial(t, `{}`, []*server{slow, fast}, grpc.WithContextDialer(
		func(ctx context.Context, address string) (net.Conn, error) {
			if address == fast.address && first.CompareAndSwap(false, true) {
				<-called
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}))
	c.mustCall(t)
	close(called)
	c.connected(t, 2)
	for _, endpoint := range c.channel(t).Snapshot().Endpoints {
		if endpoint.State == "warming_up" {
			t.Errorf("%s warms up", endpoint.Address)
		}
	}
	answered, failed := c.load(t, 8, 400, nil)
	if len(failed) > 0 || answered[slow.address] > 40 {
		t.Errorf("the slow server answered %d of 400 calls; failed %v", answered[slow.address], failed)
	}
	c.noneInFlight(t, slow, fast)

	// One that joins later does.
	later := serve(t, after(2*time.Millisecond))
	c.update(slow, fast, later)
	c.connected(t, 3)
	warming := ""
	for _, endpoint := range c.channel(t).Snapshot().Endpoints {
		if endpoint.State == "warming_up" {
			warming += endpoint.Address
		}
	}
	if warming != later.address {
		t.Errorf("%q warms up, want %s", warming, later.address)
	}
}

// An endpoint that goes on connecting does not keep health from the others.
func TestFirstConnectionThatTakesTooLong(t *testing.T) {
	before := settleMax
	t.Cleanup(func() { settleMax = before })
	settleMax = 20 * time.Millisecond
	good, stuck := serve(t, nil), serve(t, nil)
	released := make(chan struct{})
	patient := grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Hour})
	c := dial(t, `{}`, []*server{good, stuck}, patient, grpc.WithContextDialer(
		func(ctx context.Context, address string) (net.Conn, error) {
			if address == stuck.address {
				select {
				case <-released:
				case <-ctx.Done():
				}
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}))
	c.connected(t, 1)
	balancer := c.channel(t)
	await.Until(t, "health is on", func() bool {
		e := balancer.current()
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.policy.Snapshot(e.now()).Health) > 0
	})
	c.mustCall(t)
	close(released)
	c.connected(t, 2)
	for _, endpoint := range balancer.Snapshot().Endpoints {
		if got := endpoint.State == "warming_up"; got != (endpoint.Address == stuck.address) {
			t.Errorf("%s is %s", endpoint.Address, endpoint.State)
		}
	}
	c.mustCall(t)
	c.noneInFlight(t, good, stuck)
}

// A server that drains before it stops loses no call: its probes say so first.
func TestGracefulStopLosesNoCall(t *testing.T) {
	reporter := load.New(
		load.WithLoad(replica.New(replica.Options{NoCapacity: true})),
		load.WithDrainDelay(300*time.Millisecond))
	stopping := serveServices(t, "127.0.0.1:0", after(time.Millisecond), false,
		func(s *grpc.Server) { reporter.Register(s) },
		reporter.ServerOptions()...)
	staying := serve(t, after(time.Millisecond))
	c := dial(t, `{}`, []*server{stopping, staying})
	c.connected(t, 2)
	stopped := make(chan error, 1)
	_, failed := c.load(t, 4, 1500, func(call int) {
		if call == 300 {
			go func() { stopped <- reporter.GracefulStop(t.Context(), stopping.grpc) }()
		}
	})
	if err := <-stopped; err != nil {
		t.Errorf("graceful stop: %v", err)
	}
	if len(failed) > 0 {
		t.Errorf("failed calls: %v", failed)
	}
	if got := reporter.Load().RIF(); got != 0 {
		t.Errorf("%d requests in flight at the stopped server", got)
	}
	c.connected(t, 1)
}

// Servers that close their connections now and then lose no call, and are used as before.
func TestConnectionsThatAge(t *testing.T) {
	var servers []*server
	for range 2 {
		servers = append(servers, serveServices(t, "127.0.0.1:0", after(time.Millisecond), true,
			func(*grpc.Server) {}, grpc.KeepaliveParams(keepalive.ServerParameters{
				MaxConnectionAge: 50 * time.Millisecond,
			})))
	}
	c := dial(t, `{}`, servers)
	c.connected(t, 2)
	answered, failed := c.load(t, 4, 2000, nil)
	if len(failed) > 0 {
		t.Errorf("failed calls: %v", failed)
	}
	for _, s := range servers {
		if answered[s.address] < 200 {
			t.Errorf("%s answered %d of 2000 calls", s.address, answered[s.address])
		}
	}
	c.noneInFlight(t, servers...)
}

// An idle channel has no balancer, and wakes up with the next call.
func TestIdleChannel(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, `{}`, []*server{s}, grpc.WithIdleTimeout(50*time.Millisecond))
	for range 3 {
		c.mustCall(t)
		await.Until(t, "the channel is idle", func() bool {
			for _, channel := range Channels() {
				if channel.Target() == c.target {
					return false
				}
			}
			return true
		})
	}
}
