package load

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/grpc/probepb"
	"github.com/slackwater/slackwater/go/load"
)

func TestCallIsInFlightUntilItsEnd(t *testing.T) {
	reporter := New()
	release := make(chan struct{})
	_, conn := serve(t, reporter, &backend{unary: func(context.Context) error {
		<-release
		return nil
	}})
	client, ctx := testpb.NewTestServiceClient(conn), contextFor(t)
	const calls = 5
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := client.EmptyCall(ctx, &testpb.Empty{})
			done <- err
		}()
	}
	await(t, func() bool { return reporter.Load().RIF() == calls }, func() {
		t.Errorf("%d in flight, want %d", reporter.Load().RIF(), calls)
	})
	report, err := probepb.NewLoadClient(conn).Probe(ctx, &probepb.ProbeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if report.GetRif() != calls || report.LatencyNs != nil {
		t.Errorf("report %v, want %d in flight and no latency: a probe is no query", report, calls)
	}
	close(release)
	for range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	awaitCounts(t, reporter.Load(), load.Counts{Succeeded: calls})
	report, err = probepb.NewLoadClient(conn).Probe(ctx, &probepb.ProbeRequest{})
	if err != nil || report.GetRif() != 0 || report.GetLatencyNs() == 0 || report.Incarnation == nil {
		t.Errorf("report %v (%v), want 0 in flight, a latency and an incarnation", report, err)
	}
}

func TestUnknownMethodsLeakNothing(t *testing.T) {
	reporter := New()
	_, conn := serve(t, reporter, &backend{})
	ctx := contextFor(t)
	for _, method := range []string{"/no.such.Service/Call", "/grpc.testing.TestService/NoSuchCall"} {
		err := conn.Invoke(ctx, method, &testpb.Empty{}, &testpb.Empty{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want unimplemented", method, err)
		}
	}
	if _, err := testpb.NewTestServiceClient(conn).EmptyCall(ctx, &testpb.Empty{}); err != nil {
		t.Fatal(err)
	}
	awaitCounts(t, reporter.Load(), load.Counts{Succeeded: 1})
}

func TestUnknownMethodsThatAreHandledCount(t *testing.T) {
	reporter := New()
	_, conn := serve(t, reporter, &backend{}, grpc.UnknownServiceHandler(
		func(any, grpc.ServerStream) error { return status.Error(codes.Internal, "broken") }))
	err := conn.Invoke(contextFor(t), "/no.such.Service/Call", &testpb.Empty{}, &testpb.Empty{})
	if status.Code(err) != codes.Internal {
		t.Fatal(err)
	}
	awaitCounts(t, reporter.Load(), load.Counts{Failed: 1})
}

func TestStatusDecidesTheEnd(t *testing.T) {
	success, failed, cancelled := load.Counts{Succeeded: 1}, load.Counts{Failed: 1}, load.Counts{Cancelled: 1}
	for code, want := range map[codes.Code][2]load.Counts{
		codes.OK:                 {success, success},
		codes.Canceled:           {cancelled, cancelled},
		codes.Unknown:            {failed, failed},
		codes.InvalidArgument:    {success, success},
		codes.DeadlineExceeded:   {failed, cancelled},
		codes.NotFound:           {success, success},
		codes.AlreadyExists:      {success, success},
		codes.PermissionDenied:   {success, success},
		codes.ResourceExhausted:  {failed, cancelled},
		codes.FailedPrecondition: {success, success},
		codes.Aborted:            {success, success},
		codes.OutOfRange:         {success, success},
		codes.Unimplemented:      {failed, failed},
		codes.Internal:           {failed, failed},
		codes.Unavailable:        {failed, cancelled},
		codes.DataLoss:           {failed, failed},
		codes.Unauthenticated:    {success, success},
	} {
		for i, pushesBack := range []bool{false, true} {
			reporter := New()
			_, conn := serve(t, reporter, &backend{unary: func(ctx context.Context) error {
				if pushesBack {
					_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, "7"))
				}
				return status.Error(code, "as the test wants")
			}})
			_, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{})
			if status.Code(err) != code {
				t.Errorf("the client got %v, want %v", err, code)
			}
			await(t, func() bool { return reporter.Load().Counts() == want[i] }, func() {
				t.Errorf("%v, pushback %v: %+v, want %+v", code, pushesBack, reporter.Load().Counts(), want[i])
			})
		}
	}
}

func TestFailedCallIsNoSampleOfLatency(t *testing.T) {
	reporter := New()
	_, conn := serve(t, reporter, &backend{unary: func(context.Context) error { return errors.New("broken") }})
	_, _ = testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{})
	awaitCounts(t, reporter.Load(), load.Counts{Failed: 1})
	if latency := reporter.Load().Report(nil).Latency; latency != 0 {
		t.Errorf("latency %v, want unknown", latency)
	}
}

// A client that leaves, and one whose deadline passes, end a call in the same way.
func TestCallThatItsClientGivesUpIsCancelled(t *testing.T) {
	for _, name := range []string{"cancel", "deadline", "connection"} {
		t.Run(name, func(t *testing.T) {
			reporter := New()
			begun := make(chan struct{})
			_, conn := serve(t, reporter, &backend{unary: func(ctx context.Context) error {
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			}})
			// The call is to reach the server within its deadline, so the connection is there before.
			if _, err := probepb.NewLoadClient(conn).Probe(contextFor(t), &probepb.ProbeRequest{}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(contextFor(t))
			if name == "deadline" {
				ctx, cancel = context.WithTimeout(ctx, time.Second)
			}
			defer cancel()
			go func() {
				<-begun
				switch name {
				case "cancel":
					cancel()
				case "connection":
					_ = conn.Close()
				}
			}()
			if _, err := testpb.NewTestServiceClient(conn).EmptyCall(ctx, &testpb.Empty{}); err == nil {
				t.Error("the call succeeded")
			}
			awaitCounts(t, reporter.Load(), load.Counts{Cancelled: 1})
		})
	}
}

func TestPanicOfAHandlerCountsAndLeaksNothing(t *testing.T) {
	t.Run("recovered", func(t *testing.T) {
		reporter := New()
		recovery := func(
			ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
		) (_ any, err error) {
			defer func() {
				if recover() != nil {
					err = status.Error(codes.Internal, "panic")
				}
			}()
			return handler(ctx, request)
		}
		_, conn := serve(t, reporter, &backend{unary: func(context.Context) error { panic("a bug") }},
			grpc.UnaryInterceptor(recovery))
		_, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{})
		if status.Code(err) != codes.Internal {
			t.Fatal(err)
		}
		awaitCounts(t, reporter.Load(), load.Counts{Failed: 1})
	})
	// gRPC lets a panic pass that nothing recovers, and reports the end without an error meanwhile.
	t.Run("passing", func(t *testing.T) {
		reporter := New()
		handler := reporter.StatsHandler()
		ctx := handler.TagRPC(context.Background(), &stats.RPCTagInfo{FullMethodName: "/a.B/C"})
		handler.HandleRPC(ctx, &stats.Begin{})
		handler.HandleRPC(ctx, &stats.OutHeader{})
		handler.HandleRPC(ctx, &stats.End{})
		awaitCounts(t, reporter.Load(), load.Counts{Failed: 1})
	})
}

// gRPC ends a stream a moment before the stream's context. A handler that returns in between writes
// nothing, and its end has no error.
func TestHandlerThatReturnsWhileItsClientLeavesIsCancelled(t *testing.T) {
	for name, call := range map[string]func(*handler, context.Context) error{
		"unary": func(h *handler, ctx context.Context) error {
			_, err := h.watchUnary(ctx, nil, nil, func(context.Context, any) (any, error) { return nil, nil })
			return err
		},
		"stream": func(h *handler, ctx context.Context) error {
			return h.watchStream(nil, &streamOf{ctx: ctx}, nil, func(any, grpc.ServerStream) error { return nil })
		},
		"no interceptors, but an error": func(*handler, context.Context) error {
			return status.Error(codes.Canceled, "the stream has ended")
		},
	} {
		t.Run(name, func(t *testing.T) {
			reporter := New()
			ctx := reporter.stats.TagRPC(context.Background(), &stats.RPCTagInfo{FullMethodName: "/a.B/C"})
			reporter.stats.HandleRPC(ctx, &stats.Begin{})
			reporter.stats.HandleRPC(ctx, &stats.End{Error: call(reporter.stats, ctx)})
			awaitCounts(t, reporter.Load(), load.Counts{Cancelled: 1})
		})
	}
}

// streamOf is a stream with nothing but a context.
type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamOf) Context() context.Context { return s.ctx }

func TestLatencyEndsAtTheHead(t *testing.T) {
	reporter := New(WithLoad(load.New(load.Options{NoCapacity: true})))
	headSent, release := make(chan struct{}), make(chan struct{})
	_, conn := serve(t, reporter, &backend{stream: func(stream testpb.TestService_FullDuplexCallServer) error {
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
		close(headSent)
		<-release
		return nil
	}})
	stream, err := testpb.NewTestServiceClient(conn).FullDuplexCall(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	<-headSent
	if rif := reporter.Load().RIF(); rif != 1 {
		t.Errorf("%d in flight after the head, want 1", rif)
	}
	if latency := reporter.Load().Report(nil).Latency; latency == 0 {
		t.Error("no latency after the head")
	}
	close(release)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	awaitCounts(t, reporter.Load(), load.Counts{Succeeded: 1})
}

func TestHeadOfAHandlerThatHasReturnedIsHarmless(t *testing.T) {
	reporter := New()
	left := make(chan struct{})
	_, conn := serve(t, reporter, &backend{unary: func(ctx context.Context) error {
		go func() {
			defer close(left)
			_ = grpc.SendHeader(ctx, nil)
		}()
		return nil
	}})
	if _, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{}); err != nil {
		t.Fatal(err)
	}
	<-left
	awaitCounts(t, reporter.Load(), load.Counts{Succeeded: 1})
}

func TestExcludedMethodsAreNotCounted(t *testing.T) {
	reporter := New(Exclude(testpb.TestService_EmptyCall_FullMethodName))
	server := grpc.NewServer(reporter.ServerOptions()...)
	testpb.RegisterTestServiceServer(server, &backend{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	conn, ctx := connect(t, server), contextFor(t)
	if _, err := testpb.NewTestServiceClient(conn).EmptyCall(ctx, &testpb.Empty{}); err != nil {
		t.Fatal(err)
	}
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	if rif, counts := reporter.Load().RIF(), reporter.Load().Counts(); rif != 0 || counts != (load.Counts{}) {
		t.Errorf("%d in flight, counts %+v, want none", rif, counts)
	}
}

func TestClientsEventsAreIgnored(t *testing.T) {
	reporter := New()
	handler := reporter.StatsHandler()
	ctx := handler.TagRPC(context.Background(), &stats.RPCTagInfo{FullMethodName: "/a.B/C"})
	handler.HandleRPC(ctx, &stats.Begin{Client: true})
	handler.HandleRPC(ctx, &stats.End{Client: true})
	handler.HandleRPC(context.Background(), &stats.Begin{})
	// An end without a begin.
	handler.HandleRPC(ctx, &stats.OutHeader{})
	handler.HandleRPC(ctx, &stats.End{})
	awaitCounts(t, reporter.Load(), load.Counts{})
}

// gRPC sends metadata that a handler has set as a head of its own, also before a status of failure.
func TestFailedCallWithMetadataIsNoSampleOfLatency(t *testing.T) {
	broken := status.Error(codes.Internal, "broken")
	for kind, call := range map[string]func(testpb.TestServiceClient) error{
		"unary": func(client testpb.TestServiceClient) error {
			_, err := client.EmptyCall(contextFor(t), &testpb.Empty{})
			return err
		},
		"stream": func(client testpb.TestServiceClient) error {
			stream, err := client.FullDuplexCall(contextFor(t))
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		reporter := New()
		_, conn := serve(t, reporter, &backend{
			unary: func(ctx context.Context) error {
				return errors.Join(grpc.SetHeader(ctx, metadata.Pairs("request-id", "7")), broken)
			},
			stream: func(stream testpb.TestService_FullDuplexCallServer) error {
				return errors.Join(stream.SetHeader(metadata.Pairs("request-id", "7")), broken)
			},
		})
		if err := call(testpb.NewTestServiceClient(conn)); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", kind, err)
		}
		awaitCounts(t, reporter.Load(), load.Counts{Failed: 1})
		if latency := reporter.Load().Report(nil).Latency; latency != 0 {
			t.Errorf("%s: latency %v, want unknown", kind, latency)
		}
	}
}

// A reporter whose handler is installed twice counts each call once, and so does each of two.
func TestHandlersThatAreInstalledTogether(t *testing.T) {
	reporter, other := New(), New()
	_, conn := serve(t, reporter, &backend{}, grpc.StatsHandler(reporter.StatsHandler()),
		grpc.StatsHandler(other.StatsHandler()))
	if _, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Reporter{reporter, other} {
		await(t, func() bool { return r.Load().Counts().Succeeded > 0 }, func() { t.Error("no call was counted") })
		awaitCounts(t, r.Load(), load.Counts{Succeeded: 1})
	}
}
