package load

import (
	"context"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/slackwater/slackwater/go/load"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// TestMain fails if goroutines of this package or of gRPC are left at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(patience)
	for left := leftGoroutines(); left != ""; left = leftGoroutines() {
		if time.Now().After(deadline) {
			_, _ = os.Stderr.WriteString("goroutines are left:\n" + left + "\n")
			os.Exit(1)
		}
		runtime.Gosched()
	}
	os.Exit(code)
}

func leftGoroutines() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for _, stack := range strings.Split(string(stacks), "\n\n")[1:] {
		if strings.Contains(stack, "google.golang.org/grpc") || strings.Contains(stack, "slackwater") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

// backend is a test service of which each method can be replaced.
type backend struct {
	testpb.UnimplementedTestServiceServer
	unary  func(context.Context) error
	stream func(testpb.TestService_FullDuplexCallServer) error
}

func (b *backend) EmptyCall(ctx context.Context, _ *testpb.Empty) (*testpb.Empty, error) {
	if b.unary != nil {
		if err := b.unary(ctx); err != nil {
			return nil, err
		}
	}
	return &testpb.Empty{}, nil
}

func (b *backend) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	return b.stream(stream)
}

// serve starts a server on loopback and returns a client of it. Both end with the test.
func serve(
	t testing.TB, reporter *Reporter, b *backend, options ...grpc.ServerOption,
) (*grpc.Server, *grpc.ClientConn) {
	t.Helper()
	server := grpc.NewServer(append(reporter.ServerOptions(), options...)...)
	reporter.Register(server)
	testpb.RegisterTestServiceServer(server, b)
	return server, connect(t, server)
}

func connect(t testing.TB, server *grpc.Server) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return conn
}

// awaitCounts waits until queries have ended in exactly these numbers, and nothing is in flight.
func awaitCounts(t *testing.T, l *load.Load, want load.Counts) {
	t.Helper()
	await(t, func() bool { return l.RIF() == 0 && l.Counts() == want }, func() {
		t.Errorf("%d in flight, counts %+v, want 0 and %+v", l.RIF(), l.Counts(), want)
	})
}

// await waits until a condition holds, or fails by complaining.
func await(t *testing.T, holds func() bool, complain func()) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			complain()
			t.FailNow()
		}
	}
}

func contextFor(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
