package interop

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	slackwatergrpc "github.com/slackwater/slackwater/go/grpc"
	"github.com/slackwater/slackwater/go/grpc/load"
	"github.com/slackwater/slackwater/go/internal/await"
)

// replica is a gRPC server with the test service of gRPC's interop cases.
type replica struct {
	address string
	server  *grpc.Server
	// reporter reports its load; nil if it reports none.
	reporter *load.Reporter
	// answered are the unary calls that it has received.
	answered *atomic.Int64
}

// replicaOptions are how a replica is.
type replicaOptions struct {
	// takes is how long a unary call takes.
	takes time.Duration
	// plain is a server that does not report its load.
	plain bool
	tls   credentials.TransportCredentials
}

// timedService takes some time for each unary call, and leaves the call of gRPC's case
// cancel_after_begin open until it is cancelled.
type timedService struct {
	testgrpc.TestServiceServer
	takes    time.Duration
	answered *atomic.Int64
}

func (s *timedService) UnaryCall(
	ctx context.Context, request *testgrpc.SimpleRequest,
) (*testgrpc.SimpleResponse, error) {
	s.answered.Add(1)
	if s.takes > 0 {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return s.TestServiceServer.UnaryCall(ctx, request)
}

// StreamingInputCall is still at work when gRPC's case cancel_after_begin cancels it. If it
// answered at the end of the requests, the case would end with either the answer or the
// cancellation. Only that case sends the metadata key1.
func (s *timedService) StreamingInputCall(stream testgrpc.TestService_StreamingInputCallServer) error {
	ctx := stream.Context()
	if len(metadata.ValueFromIncomingContext(ctx, "key1")) > 0 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.TestServiceServer.StreamingInputCall(stream)
}

// startReplica starts a server on loopback, which answers probes by gRPC and, at the same address,
// by UDP.
func startReplica(t *testing.T, options replicaOptions) *replica {
	t.Helper()
	listener, socket := listenBoth(t)
	r := &replica{address: listener.Addr().String(), answered: new(atomic.Int64)}
	serverOptions := []grpc.ServerOption{grpc.WaitForHandlers(true)}
	if options.tls != nil {
		serverOptions = append(serverOptions, grpc.Creds(options.tls))
	}
	if !options.plain {
		r.reporter = load.New()
		serverOptions = append(r.reporter.ServerOptions(), serverOptions...)
	}
	r.server = grpc.NewServer(serverOptions...)
	testgrpc.RegisterTestServiceServer(r.server, &timedService{
		TestServiceServer: interop.NewTestServer(), takes: options.takes, answered: r.answered,
	})
	answering := make(chan struct{})
	if r.reporter == nil {
		close(answering)
		_ = socket.Close()
	} else {
		r.reporter.Register(r.server)
		go func() {
			defer close(answering)
			_ = r.reporter.ServeUDP(context.WithoutCancel(t.Context()), socket)
		}()
	}
	go func() { _ = r.server.Serve(listener) }()
	t.Cleanup(func() {
		r.server.Stop()
		_ = socket.Close()
		<-answering
	})
	return r
}

// listenBoth listens at the same free port of loopback by TCP and by UDP.
func listenBoth(t *testing.T) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 20 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		socket, err := net.ListenPacket("udp", listener.Addr().String())
		if err == nil {
			return listener, socket
		}
		_ = listener.Close()
	}
	t.Fatal("no port is free for both TCP and UDP")
	return nil, nil
}

// dial returns a channel over the addresses that balances by the policy "slackwater", with probes
// by one transport.
func dial(
	t *testing.T, transport string, tls credentials.TransportCredentials, addresses ...string,
) *grpc.ClientConn {
	t.Helper()
	builder := manual.NewBuilderWithScheme("replicas")
	state := resolver.State{}
	for _, address := range addresses {
		endpoint := resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}}
		state.Endpoints = append(state.Endpoints, endpoint)
	}
	builder.InitialState(state)
	if tls == nil {
		tls = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(targetOf(t),
		grpc.WithResolvers(builder),
		grpc.WithTransportCredentials(tls),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(
			`{"loadBalancingConfig":[{"slackwater":{"probe":{"transport":%q}}}]}`, transport)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	conn.Connect()
	return conn
}

// targetOf is the target of a test's channel, by which its balancer is found. It is also the
// authority of its calls, in which a slash would be escaped, and the Rust binary refuses escaped
// authorities.
func targetOf(t *testing.T) string { return "replicas:///" + strings.ReplaceAll(t.Name(), "/", "-") }

// snapshotOf returns the state of the test's balancer.
func snapshotOf(t *testing.T) slackwatergrpc.Snapshot {
	for _, channel := range slackwatergrpc.Channels() {
		if channel.Target() == targetOf(t) {
			return channel.Snapshot()
		}
	}
	return slackwatergrpc.Snapshot{}
}

// available waits until this number of endpoints is connected and has answered a probe. An endpoint
// is probed in turn with calls, so it makes some.
func available(t *testing.T, client testgrpc.TestServiceClient, endpoints int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	await.Until(t, fmt.Sprint(endpoints, " endpoints answer probes"), func() bool {
		_, err := client.EmptyCall(ctx, &testgrpc.Empty{}, grpc.WaitForReady(true))
		if err != nil {
			t.Fatalf("EmptyCall: %v", err)
		}
		found := 0
		for _, endpoint := range snapshotOf(t).Endpoints {
			if endpoint.State == "available" {
				found++
			}
		}
		return found == endpoints
	})
}
