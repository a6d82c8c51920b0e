package slackwatergrpc

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/grpc/probepb"
	"github.com/slackwater/slackwater/go/internal/await"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := await.GoroutinesLeft(); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left after the tests:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// server is a gRPC server that reports its load.
type server struct {
	grpc_testing.UnimplementedTestServiceServer
	probepb.UnimplementedLoadServer

	grpc    *grpc.Server
	address string
	// handle answers unary calls. Set it before the first call.
	handle func(context.Context) error

	calls, probes, rif, load, latencyNS atomic.Int64
	carryRequests                       atomic.Int64
	draining                            atomic.Bool
	stop                                sync.Once
}

// serve starts a server that answers calls by handle.
func serve(t testing.TB, handle func(context.Context) error) *server {
	t.Helper()
	return serveOn(t, "127.0.0.1:0", handle, true)
}

func serveOn(t testing.TB, address string, handle func(context.Context) error, withProbes bool) *server {
	t.Helper()
	return serveServices(t, address, handle, withProbes, func(*grpc.Server) {})
}

// serveServices starts a server with services besides its own.
func serveServices(
	t testing.TB, address string, handle func(context.Context) error, withProbes bool,
	register func(*grpc.Server), options ...grpc.ServerOption,
) *server {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return serveListener(t, listener, handle, withProbes, register, options...)
}

// serveAt starts a server at a port that is kept when it ends.
func serveAt(t testing.TB, port keptPort, handle func(context.Context) error) *server {
	t.Helper()
	if err := port.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return serveListener(t, port, handle, true, func(*grpc.Server) {})
}

// keptPort is a listener that a server cannot close: the port stays the test's, and no other
// process gets it, until a server listens again.
type keptPort struct{ *net.TCPListener }

// Close ends the wait for connections.
func (p keptPort) Close() error { return p.SetDeadline(time.Unix(1, 0)) }

func keepPort(t testing.TB) keptPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return keptPort{listener.(*net.TCPListener)}
}

func serveListener(
	t testing.TB, listener net.Listener, handle func(context.Context) error, withProbes bool,
	register func(*grpc.Server), options ...grpc.ServerOption,
) *server {
	t.Helper()
	s := &server{grpc: grpc.NewServer(options...), address: listener.Addr().String(), handle: handle}
	grpc_testing.RegisterTestServiceServer(s.grpc, s)
	if withProbes {
		probepb.RegisterLoadServer(s.grpc, s)
	}
	register(s.grpc)
	go s.grpc.Serve(listener)
	t.Cleanup(s.kill)
	return s
}

func (s *server) kill() { s.stop.Do(s.grpc.Stop) }

func (s *server) UnaryCall(ctx context.Context, _ *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	s.calls.Add(1)
	s.rif.Add(1)
	defer s.rif.Add(-1)
	if s.handle != nil {
		if err := s.handle(ctx); err != nil {
			return nil, err
		}
	}
	return &grpc_testing.SimpleResponse{ServerId: s.address}, nil
}

// FullDuplexCall sends its head at once, and a response for each request.
func (s *server) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	s.rif.Add(1)
	defer s.rif.Add(-1)
	if err := stream.SendHeader(metadata.Pairs("server", s.address)); err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

func (s *server) Probe(_ context.Context, request *probepb.ProbeRequest) (*probepb.LoadReport, error) {
	s.probes.Add(1)
	if request.GetCarry() {
		s.carryRequests.Add(1)
	}
	report := &probepb.LoadReport{
		Rif: uint32(s.rif.Load() + s.load.Load()), Draining: s.draining.Load(),
	}
	if latency := uint64(s.latencyNS.Load()); latency > 0 {
		report.LatencyNs = &latency
	}
	return report, nil
}

// after returns a handler that takes some time.
func after(span time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(span):
			return nil
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// client is a channel whose endpoints the test sets.
type client struct {
	grpc_testing.TestServiceClient
	cc       *grpc.ClientConn
	resolver *manual.Resolver
	target   string
}

// schemes makes a target of its own for each channel.
var schemes atomic.Int64

func dial(t testing.TB, config string, servers []*server, options ...grpc.DialOption) *client {
	t.Helper()
	scheme := fmt.Sprintf("test%d", schemes.Add(1))
	c := &client{resolver: manual.NewBuilderWithScheme(scheme), target: scheme + ":///servers"}
	c.resolver.InitialState(stateOfServers(servers))
	cc, err := grpc.NewClient(c.target, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(c.resolver),
		grpc.WithDefaultServiceConfig(serviceConfig(config)),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	c.cc, c.TestServiceClient = cc, grpc_testing.NewTestServiceClient(cc)
	return c
}

func serviceConfig(config string) string {
	return `{"loadBalancingConfig": [{"slackwater": ` + config + `}]}`
}

func stateOfServers(servers []*server) resolver.State {
	var state resolver.State
	for _, s := range servers {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses: []resolver.Address{{Addr: s.address}},
		})
	}
	return state
}

// update replaces the endpoints.
func (c *client) update(servers ...*server) {
	c.resolver.UpdateState(stateOfServers(servers))
}

// call makes a unary call, and returns the server's address.
func (c *client) call(ctx context.Context) (string, error) {
	reply, err := c.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
	return reply.GetServerId(), err
}

// mustCall makes a unary call that must succeed.
func (c *client) mustCall(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	address, err := c.call(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// channel returns the balancer of the client.
func (c *client) channel(t *testing.T) *Channel {
	t.Helper()
	for _, channel := range Channels() {
		if channel.Target() == c.target {
			return channel
		}
	}
	t.Fatal("the channel is not listed")
	return nil
}

// connected waits until this many endpoints are READY.
func (c *client) connected(t *testing.T, endpoints int) {
	t.Helper()
	c.cc.Connect()
	await.Until(t, fmt.Sprintf("%d endpoints", endpoints), func() bool {
		for _, channel := range Channels() {
			if channel.Target() == c.target {
				return len(channel.Snapshot().Endpoints) == endpoints
			}
		}
		return false
	})
}

// noneInFlight waits until neither the client nor the servers have calls in flight.
func (c *client) noneInFlight(t *testing.T, servers ...*server) {
	t.Helper()
	await.Until(t, "no calls in flight", func() bool {
		for _, endpoint := range c.channel(t).Snapshot().Endpoints {
			if endpoint.InFlight != 0 {
				return false
			}
		}
		for _, s := range servers {
			if s.rif.Load() != 0 {
				return false
			}
		}
		return true
	})
}

// load makes calls from several goroutines at a time. It returns the number that each server
// answered, and the number that failed with each status.
func (c *client) load(t *testing.T, workers, calls int, each func(call int)) (map[string]int, map[codes.Code]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*await.Patience)
	defer cancel()
	var (
		mu       sync.Mutex
		next     atomic.Int64
		all      sync.WaitGroup
		answered = map[string]int{}
		failed   = map[codes.Code]int{}
	)
	for range workers {
		all.Go(func() {
			for {
				call := int(next.Add(1))
				if call > calls {
					return
				}
				if each != nil {
					each(call)
				}
				address, err := c.call(ctx)
				mu.Lock()
				if err != nil {
					failed[status.Code(err)]++
				} else {
					answered[address]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answered, failed
}
