package load

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/grpc/probepb"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// requestReports sends a probe that requests reports with responses.
func requestReports(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	_, err := probepb.NewLoadClient(conn).Probe(contextFor(t), &probepb.ProbeRequest{Carry: true})
	if err != nil {
		t.Fatal(err)
	}
}

// carriedOf returns the report in trailers, or false if there is none.
func carriedOf(t *testing.T, trailer metadata.MD) (policy.LoadReport, bool) {
	t.Helper()
	values := trailer["x-slackwater-load"]
	if len(values) == 0 {
		return policy.LoadReport{}, false
	}
	report, err := probe.ParseCarried(values[0])
	if len(values) > 1 || err != nil {
		t.Fatalf("trailers %v (%v)", trailer, err)
	}
	return report, true
}

func TestResponsesCarryReportsOnRequest(t *testing.T) {
	reporter := New()
	fails := error(nil)
	server, conn := serve(t, reporter, &backend{
		unary: func(ctx context.Context) error {
			_ = grpc.SetTrailer(ctx, metadata.Pairs("own", "1"))
			return fails
		},
		stream: func(stream testpb.TestService_FullDuplexCallServer) error {
			stream.SetTrailer(metadata.Pairs("own", "1"))
			for range 3 {
				if err := stream.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
					return err
				}
			}
			return fails
		},
	})
	unary := func(conn *grpc.ClientConn) (trailer metadata.MD) {
		_, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{}, grpc.Trailer(&trailer))
		if status.Code(err) != status.Code(fails) {
			t.Fatal(err)
		}
		return trailer
	}
	stream := func(conn *grpc.ClientConn) metadata.MD {
		stream, err := testpb.NewTestServiceClient(conn).FullDuplexCall(contextFor(t))
		for err == nil {
			_, err = stream.Recv()
		}
		if !errors.Is(err, io.EOF) && status.Code(err) != status.Code(fails) {
			t.Fatal(err)
		}
		return stream.Trailer()
	}
	other := connect(t, server)
	expect := func(when string, conn *grpc.ClientConn, want bool) {
		t.Helper()
		for kind, call := range map[string]func(*grpc.ClientConn) metadata.MD{"unary": unary, "stream": stream} {
			await(t, func() bool { return reporter.Load().RIF() == 0 }, func() { t.Error("a call is left") })
			trailer := call(conn)
			report, got := carriedOf(t, trailer)
			if got != want || report.RIF != 0 || len(trailer["own"]) != 1 {
				t.Errorf("%s, %s call: trailers %v, want a report: %v", when, kind, trailer, want)
			}
		}
	}
	expect("before a request", conn, false)
	requestReports(t, conn)
	expect("after a request", conn, true)
	expect("on another connection", other, false)
	fails = status.Error(codes.Unavailable, "as the test wants")
	expect("failed", conn, false)
	fails = nil
	reporter.Drain()
	expect("draining", conn, false)
	reporter.Load().Undrain()
	expect("no longer draining", conn, true)
}

func TestCarriedReportsAreWithoutTheirCall(t *testing.T) {
	reporter := New()
	release := make(chan struct{})
	_, conn := serve(t, reporter, &backend{
		stream: func(testpb.TestService_FullDuplexCallServer) error {
			<-release
			return nil
		},
	})
	requestReports(t, conn)
	client := testpb.NewTestServiceClient(conn)
	// More than trailers are kept for.
	for inFlight := range uint32(trailersKept + 2) {
		await(t, func() bool { return reporter.Load().RIF() == inFlight }, func() {
			t.Errorf("%d in flight, want %d", reporter.Load().RIF(), inFlight)
		})
		var trailer metadata.MD
		if _, err := client.EmptyCall(contextFor(t), &testpb.Empty{}, grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		report, ok := carriedOf(t, trailer)
		if !ok || report.RIF != inFlight {
			t.Errorf("trailers %v, want %d in flight", trailer, inFlight)
		}
		// The call must have ended here, too, so that it is not taken for the stream.
		await(t, func() bool { return reporter.Load().RIF() == inFlight }, func() {
			t.Errorf("%d in flight after the call, want %d", reporter.Load().RIF(), inFlight)
		})
		if _, err := client.FullDuplexCall(contextFor(t)); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
}

// Trailers that are kept are those of the capacity and the cost of now.
func TestCarriedTrailersFollowTheReport(t *testing.T) {
	h := New().stats
	c := &call{handler: h, query: h.load.Begin()}
	defer c.query.End(0)
	first := h.carriedTrailer(c)
	if again := h.carriedTrailer(c); again[carriedKey][0] != first[carriedKey][0] {
		t.Errorf("%v after %v", again, first)
	}
	h.trailers.Store(&trailers{capacity: policy.Some[uint32](7), cost: policy.Some(time.Second)})
	h.trailers.Load().byRIF[0].Store(&metadata.MD{carriedKey: {"old"}})
	if got := h.carriedTrailer(c); got[carriedKey][0] != first[carriedKey][0] {
		t.Errorf("%v, want %v", got, first)
	}
}

func TestCallsThatDoNotCountCarryNothing(t *testing.T) {
	reporter := New(Exclude("/grpc.testing.TestService/EmptyCall"))
	_, conn := serve(t, reporter, &backend{})
	requestReports(t, conn)
	var trailer metadata.MD
	_, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{}, grpc.Trailer(&trailer))
	if err != nil || len(trailer) > 0 {
		t.Errorf("trailers %v (%v)", trailer, err)
	}
	if _, err := probepb.NewLoadClient(conn).Probe(contextFor(t), &probepb.ProbeRequest{}, grpc.Trailer(&trailer)); err != nil || len(trailer) > 0 {
		t.Errorf("trailers %v of a probe (%v)", trailer, err)
	}
}

// A server without the stats handler answers probes, and carries nothing.
func TestReportsThatCannotBeCarried(t *testing.T) {
	server := grpc.NewServer()
	New().Register(server)
	testpb.RegisterTestServiceServer(server, &backend{})
	conn := connect(t, server)
	requestReports(t, conn)
	var trailer metadata.MD
	_, err := testpb.NewTestServiceClient(conn).EmptyCall(contextFor(t), &testpb.Empty{}, grpc.Trailer(&trailer))
	if err != nil || len(trailer) > 0 {
		t.Errorf("trailers %v (%v)", trailer, err)
	}
}
