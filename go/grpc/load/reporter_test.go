package load

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	v3orcapb "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/protobuf/proto"

	"github.com/slackwater/slackwater/go/grpc/probepb"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

func TestHintScalesTheLoad(t *testing.T) {
	reporter := New(WithLoad(load.New(load.Options{HintScale: func(hint []byte) uint16 {
		if string(hint) == "user-17" {
			return 102
		}
		return 1024
	}})))
	_, conn := serve(t, reporter, &backend{})
	client, ctx := probepb.NewLoadClient(conn), contextFor(t)
	for hint, want := range map[string]uint16{"": 0, "user-17": 102, "user-18": 0} {
		report, err := client.Probe(ctx, &probepb.ProbeRequest{Hint: []byte(hint)})
		if err != nil || report.AsLoadReport().LoadScale != want {
			t.Errorf("hint %q: %v (%v), want scale %d", hint, report, err, want)
		}
	}
	_, err := client.Probe(ctx, &probepb.ProbeRequest{Hint: make([]byte, probepb.HintBytesMax+1)})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("too long a hint: %v, want InvalidArgument", err)
	}
}

func TestProbesOverUDPAreAnswered(t *testing.T) {
	key, err := probe.NewKey([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	reporter := New(WithProbeKey(key))
	reporter.Drain()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(contextFor(t))
	served := make(chan error)
	go func() { served <- reporter.ServeUDP(ctx, conn) }()

	answers := make(chan policy.LoadReport, 1)
	client, err := probe.NewClient(probe.ClientOptions[int]{
		Key:      key,
		Answered: func(answer *probe.Answer[int]) { answers <- answer.Report },
	})
	if err != nil {
		t.Fatal(err)
	}
	to := netip.MustParseAddrPort(conn.LocalAddr().String())
	stranger, err := net.Dial("udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := client.Send(to, 1, nil, patience); err != nil {
		t.Fatal(err)
	}
	select {
	case report := <-answers:
		if want := reporter.Load().Report(nil); report.Incarnation != want.Incarnation || !report.Draining {
			t.Errorf("report %+v, want %+v", report, want)
		}
	case <-ctx.Done():
		t.Error("no answer")
	}
	await(t, func() bool {
		counts := reporter.UDPCounts()
		return counts.Answered == 1 && counts.Refused(probe.TooShort) == 1
	}, func() { t.Errorf("counts %+v", reporter.UDPCounts()) })
	stop()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("ServeUDP returned %v", err)
	}
	if err := errors.Join(client.Close(), stranger.Close(), conn.Close()); err != nil {
		t.Error(err)
	}
}

func TestGracefulStopDrainsBeforeItStops(t *testing.T) {
	// The delay is a wait for this test's probe, not for time to pass.
	reporter := New(WithDrainDelay(patience))
	release := make(chan struct{})
	server, conn := serve(t, reporter, &backend{unary: func(context.Context) error {
		<-release
		return nil
	}})
	ctx := contextFor(t)
	stopCtx, stopNow := context.WithCancel(ctx)
	defer stopNow()
	call := make(chan error, 1)
	go func() {
		_, err := testpb.NewTestServiceClient(conn).EmptyCall(ctx, &testpb.Empty{})
		call <- err
	}()
	await(t, func() bool { return reporter.Load().RIF() == 1 }, func() { t.Error("no call arrived") })
	stopped := make(chan error, 1)
	go func() { stopped <- reporter.GracefulStop(stopCtx, server) }()
	// Until the delay is over, the server answers probes, and says that it drains.
	var draining bool
	await(t, func() bool {
		report, err := probepb.NewLoadClient(conn).Probe(ctx, &probepb.ProbeRequest{})
		draining = report.GetDraining()
		return err == nil && draining
	}, func() { t.Error("no report says that the server drains") })
	for range 20 {
		if _, err := probepb.NewLoadClient(conn).Probe(ctx, &probepb.ProbeRequest{}); err != nil {
			t.Fatalf("a call within the delay: %v", err)
		}
	}
	stopNow()
	if err := <-stopped; !errors.Is(err, ErrStopped) || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped with a call in flight: %v", err)
	}
	if err := <-call; err == nil {
		t.Error("the call outlived its server")
	}
	close(release)
	await(t, func() bool { return reporter.Load().RIF() == 0 }, func() { t.Error("a call is left") })
}

func TestGracefulStopWaitsForCalls(t *testing.T) {
	reporter := New(WithDrainDelay(0))
	release := make(chan struct{})
	server, conn := serve(t, reporter, &backend{unary: func(context.Context) error {
		<-release
		return nil
	}})
	ctx := contextFor(t)
	call := make(chan error, 1)
	go func() {
		_, err := testpb.NewTestServiceClient(conn).EmptyCall(ctx, &testpb.Empty{})
		call <- err
	}()
	await(t, func() bool { return reporter.Load().RIF() == 1 }, func() { t.Error("no call arrived") })
	stopped := make(chan error, 1)
	go func() { stopped <- reporter.GracefulStop(ctx, server) }()
	await(t, func() bool { return reporter.Load().Draining() }, func() { t.Error("not draining") })
	close(release)
	if err := errors.Join(<-stopped, <-call); err != nil {
		t.Error(err)
	}
}

func TestORCAReportIsInTheTrailers(t *testing.T) {
	reporter := New(WithORCA())
	_, conn := serve(t, reporter, &backend{stream: func(stream testpb.TestService_FullDuplexCallServer) error {
		return stream.Send(&testpb.StreamingOutputCallResponse{})
	}})
	client, ctx := testpb.NewTestServiceClient(conn), contextFor(t)
	var last map[string]float64
	for range 20 {
		// A client has its answer a moment before the server's call has ended.
		await(t, func() bool { return reporter.Load().RIF() == 0 }, func() { t.Error("a call is left") })
		var trailer metadata.MD
		if _, err := client.EmptyCall(ctx, &testpb.Empty{}, grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		last = orcaMetrics(t, trailer)
		if last[MetricRIF] != 0 || last[MetricPlainRIF] != 0 {
			t.Fatalf("metrics %v, want a RIF without the call that is answered", last)
		}
	}
	if last[MetricLatency] <= 0 {
		t.Errorf("metrics %v, want a latency", last)
	}
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if _, known := orcaMetrics(t, stream.Trailer())[MetricRIF]; !known {
		t.Errorf("no report in a stream's trailers %v", stream.Trailer())
	}
	var trailer metadata.MD
	if _, err := probepb.NewLoadClient(conn).Probe(ctx, &probepb.ProbeRequest{}, grpc.Trailer(&trailer)); err != nil {
		t.Fatal(err)
	}
	if len(trailer) > 0 {
		t.Errorf("a probe has the trailers %v", trailer)
	}
}

func TestNoORCAReportUnlessItIsRequested(t *testing.T) {
	_, conn := serve(t, New(), &backend{})
	var trailer metadata.MD
	_, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{}, grpc.Trailer(&trailer))
	if err != nil || len(trailer) > 0 {
		t.Errorf("trailers %v (%v), want none", trailer, err)
	}
}

func orcaMetrics(t *testing.T, trailer metadata.MD) map[string]float64 {
	t.Helper()
	values := trailer["endpoint-load-metrics-bin"]
	if len(values) != 1 {
		t.Fatalf("trailers %v, want one report", trailer)
	}
	var report v3orcapb.OrcaLoadReport
	if err := proto.Unmarshal([]byte(values[0]), &report); err != nil {
		t.Fatal(err)
	}
	return report.GetNamedMetrics()
}

func TestManyCallsLeaveNothingInFlight(t *testing.T) {
	reporter := New(WithORCA())
	_, conn := serve(t, reporter, &backend{unary: func(ctx context.Context) error {
		// Some calls end while their client leaves.
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
		return nil
	}})
	client := testpb.NewTestServiceClient(conn)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				_, _ = client.EmptyCall(ctx, &testpb.Empty{})
				cancel()
			}
		})
	}
	clients.Wait()
	await(t, func() bool { return reporter.Load().RIF() == 0 }, func() {
		t.Errorf("%d in flight at the end", reporter.Load().RIF())
	})
	if counts := reporter.Load().Counts(); counts.Failed != 0 {
		t.Errorf("counts %+v, want no failure", counts)
	}
}
