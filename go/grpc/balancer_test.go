package slackwatergrpc

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/internal/await"
)

// configs are all policies, with each way to probe that needs nothing else.
var configs = []string{
	`{}`,
	`{"probe": {"transport": "none"}}`,
	`{"policy": "prequal"}`,
	`{"policy": "least_loaded"}`,
	`{"policy": "random"}`,
}

func TestEveryPolicyUsesEveryServer(t *testing.T) {
	for _, config := range configs {
		t.Run(config, func(t *testing.T) {
			servers := []*server{serve(t, nil), serve(t, nil), serve(t, nil)}
			c := dial(t, config, servers)
			c.connected(t, 3)
			answered, failed := c.load(t, 8, 300, nil)
			if len(failed) > 0 {
				t.Errorf("failed calls: %v", failed)
			}
			for _, s := range servers {
				if answered[s.address] == 0 {
					t.Errorf("%s got no call of %v", s.address, answered)
				}
			}
			c.noneInFlight(t, servers...)
		})
	}
}

func TestSlowServerGetsFewCalls(t *testing.T) {
	for _, config := range []string{`{}`, `{"policy": "prequal"}`, `{"probe": {"transport": "none"}}`, `{"policy": "least_loaded"}`} {
		t.Run(config, func(t *testing.T) {
			fast := []*server{serve(t, after(2*time.Millisecond)), serve(t, after(2*time.Millisecond))}
			slow := serve(t, after(100*time.Millisecond))
			slow.latencyNS.Store(int64(100 * time.Millisecond))
			for _, s := range fast {
				s.latencyNS.Store(int64(2 * time.Millisecond))
			}
			c := dial(t, config, append(fast, slow))
			c.connected(t, 3)
			answered, failed := c.load(t, 8, 800, nil)
			if len(failed) > 0 {
				t.Errorf("failed calls: %v", failed)
			}
			// A fair share would be a third.
			if answered[slow.address] > 800/8 {
				t.Errorf("the slow server answered %d of 800 calls", answered[slow.address])
			}
			c.noneInFlight(t, append(fast, slow)...)
		})
	}
}

// What decides is what the servers report, not what the channel measures.
func TestReportedLoadDecides(t *testing.T) {
	servers := []*server{serve(t, nil), serve(t, nil), serve(t, nil)}
	busy := servers[1]
	busy.load.Store(1000)
	for _, s := range servers {
		s.latencyNS.Store(int64(time.Millisecond))
	}
	c := dial(t, `{}`, servers)
	c.connected(t, 3)
	await.Until(t, "reports of all", func() bool { return len(c.channel(t).Snapshot().Reports) == 3 })
	before := busy.calls.Load()
	c.load(t, 4, 200, nil)
	if got := busy.calls.Load() - before; got > 10 {
		t.Errorf("the busy server got %d of 200 calls", got)
	}
}

func TestDrainingServerGetsNoCalls(t *testing.T) {
	servers := []*server{serve(t, nil), serve(t, nil), serve(t, nil)}
	c := dial(t, `{"health": "off"}`, servers)
	c.connected(t, 3)
	draining := servers[2]
	draining.draining.Store(true)
	await.Until(t, "its state is draining", func() bool {
		for _, endpoint := range c.channel(t).Snapshot().Endpoints {
			if endpoint.Address == draining.address {
				return endpoint.State == "draining"
			}
		}
		return false
	})
	before := draining.calls.Load()
	c.load(t, 4, 200, nil)
	if got := draining.calls.Load() - before; got != 0 {
		t.Errorf("the draining server got %d calls", got)
	}
}

// Only the calls that are in flight at the server fail, and all others are answered by the rest.
func TestKillUnderLoad(t *testing.T) {
	for _, config := range configs {
		t.Run(config, func(t *testing.T) {
			servers := []*server{
				serve(t, after(time.Millisecond)), serve(t, after(time.Millisecond)), serve(t, after(time.Millisecond)),
			}
			c := dial(t, config, servers)
			c.connected(t, 3)
			const workers = 8
			_, failed := c.load(t, workers, 1500, func(call int) {
				if call == 500 {
					servers[0].kill()
				}
			})
			failures := 0
			for code, count := range failed {
				failures += count
				if code != codes.Unavailable {
					t.Errorf("%d calls failed with %v", count, code)
				}
			}
			if failures > workers {
				t.Errorf("%d calls failed, and at most %d were in flight", failures, workers)
			}
			c.noneInFlight(t, servers...)
			c.connected(t, 2)
		})
	}
}

func TestServerComesBack(t *testing.T) {
	port := keepPort(t)
	first, second := serve(t, nil), serveAt(t, port, nil)
	c := dial(t, `{}`, []*server{first, second})
	c.connected(t, 2)
	second.kill()
	c.connected(t, 1)
	if got := c.mustCall(t); got != first.address {
		t.Errorf("answered by %s", got)
	}
	again := serveAt(t, port, nil)
	c.cc.ResetConnectBackoff()
	c.connected(t, 2)
	await.Until(t, "it gets calls again", func() bool { return c.mustCall(t) == again.address })
}

func TestEndpointsVanishWithCallsInFlight(t *testing.T) {
	for _, config := range configs {
		t.Run(config, func(t *testing.T) {
			release := make(chan struct{})
			entered := make(chan struct{}, 16)
			slow := serve(t, func(ctx context.Context) error {
				entered <- struct{}{}
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			other := serve(t, nil)
			c := dial(t, config, []*server{slow})
			c.connected(t, 1)
			var calls sync.WaitGroup
			errs := make(chan error, 8)
			for range 8 {
				calls.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
					defer cancel()
					_, err := c.call(ctx)
					errs <- err
				})
			}
			for range 8 {
				<-entered
			}
			c.update(other)
			c.connected(t, 1)
			await.Until(t, "the other server answers", func() bool { return c.mustCall(t) == other.address })
			// The endpoint is gone, and its calls go on.
			close(release)
			calls.Wait()
			for range 8 {
				if err := <-errs; err != nil {
					t.Errorf("a call in flight failed: %v", err)
				}
			}
			c.noneInFlight(t, slow, other)
		})
	}
}

func TestAllEndpointsVanish(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, `{}`, []*server{s})
	c.connected(t, 1)
	c.mustCall(t)
	c.update()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	await.Until(t, "calls fail", func() bool {
		_, err := c.call(ctx)
		return status.Code(err) == codes.Unavailable
	})
	c.update(s)
	await.Until(t, "calls succeed", func() bool { _, err := c.call(ctx); return err == nil })
}

// A call waits as long as there is no connection yet, and fails with the cause if there is none.
func TestNoServer(t *testing.T) {
	refusing := keepPort(t)
	go func() {
		for {
			conn, err := refusing.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	c := dial(t, `{}`, []*server{{address: refusing.Addr().String()}})
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	if _, err := c.call(ctx); status.Code(err) != codes.Unavailable {
		t.Errorf("error %v", err)
	}
}

func TestStreams(t *testing.T) {
	for _, options := range [][]grpc.DialOption{nil, DialOptions()} {
		servers := []*server{serve(t, nil), serve(t, nil)}
		c := dial(t, `{"probe": {"transport": "none"}}`, servers, options...)
		c.connected(t, 2)
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		defer cancel()
		var streams []grpc_testing.TestService_FullDuplexCallClient
		for range 4 {
			stream, err := c.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			streams = append(streams, stream)
		}
		inFlight := uint32(0)
		for _, endpoint := range c.channel(t).Snapshot().Endpoints {
			inFlight += endpoint.InFlight
		}
		if inFlight != 4 {
			t.Errorf("%d streams in flight, want 4", inFlight)
		}
		if servers[0].calls.Load() != 2 || servers[1].calls.Load() != 2 {
			t.Errorf("%d and %d streams, want 2 each", servers[0].calls.Load(), servers[1].calls.Load())
		}
		for i, stream := range streams {
			if i == 0 {
				continue // ended by the cancellation below
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err == nil {
				t.Error("the stream goes on")
			}
		}
		cancel()
		c.noneInFlight(t, servers...)
	}
}

func TestDeadlineOfTheClient(t *testing.T) {
	slow := serve(t, after(await.Patience))
	c := dial(t, `{}`, []*server{slow})
	c.connected(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.call(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
	c.noneInFlight(t, slow)
}

// A server without the probe service answers calls like any other.
func TestServersWithoutProbes(t *testing.T) {
	servers := []*server{
		serveOn(t, "127.0.0.1:0", after(time.Millisecond), false),
		serveOn(t, "127.0.0.1:0", after(time.Millisecond), false),
	}
	c := dial(t, `{}`, servers)
	c.connected(t, 2)
	answered, failed := c.load(t, 4, 200, nil)
	if len(failed) > 0 || answered[servers[0].address] < 50 || answered[servers[1].address] < 50 {
		t.Errorf("answered %v, failed %v", answered, failed)
	}
	await.Until(t, "a probe is lost", func() bool { return c.channel(t).Snapshot().Probes.Lost > 0 })
}

// A probe that hangs is lost at its deadline, and delays no call.
func TestProbesThatHang(t *testing.T) {
	hanging := hangingProbes(t)
	c := dial(t, `{"prequal": {"probeDeadline": "10ms"}}`, []*server{hanging})
	c.connected(t, 1)
	await.Until(t, "lost probes", func() bool {
		c.mustCall(t)
		return c.channel(t).Snapshot().Probes.Lost >= 3
	})
}

func hangingProbes(t *testing.T) *server {
	t.Helper()
	s := &server{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.grpc = grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	}))
	grpc_testing.RegisterTestServiceServer(s.grpc, s)
	go s.grpc.Serve(listener)
	t.Cleanup(s.kill)
	return s
}
