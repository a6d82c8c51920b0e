package slackwatergrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/policy"
)

func TestOutcomes(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	pushback := metadata.Pairs(pushbackKey, "1000")
	answeredWith := func(code codes.Code, text string) balancer.DoneInfo {
		return balancer.DoneInfo{Err: status.Error(code, text), BytesSent: true, BytesReceived: true}
	}
	answered := func(code codes.Code, trailer metadata.MD) balancer.DoneInfo {
		return balancer.DoneInfo{
			Err: status.Error(code, "text"), Trailer: trailer, BytesSent: true, BytesReceived: true,
		}
	}
	for _, test := range []struct {
		name string
		ctx  context.Context
		info balancer.DoneInfo
		want policy.Outcome
	}{
		{"ok", t.Context(), balancer.DoneInfo{BytesSent: true, BytesReceived: true}, policy.OutcomeSuccess},
		{"about the caller", t.Context(), answered(codes.NotFound, nil), policy.OutcomeSuccess},
		{"aborted", t.Context(), answered(codes.Aborted, nil), policy.OutcomeSuccess},
		{"canceled by the server", t.Context(), answered(codes.Canceled, nil), policy.OutcomeSuccess},
		{"canceled by the client", canceled, answered(codes.Canceled, nil), policy.OutcomeDropped},
		{"answered before the client gave up", canceled, answered(codes.NotFound, nil), policy.OutcomeSuccess},
		{"deadline at the server", t.Context(), answered(codes.DeadlineExceeded, nil), policy.OutcomeFailed},
		{"deadline at the client", expired, answered(codes.DeadlineExceeded, nil), policy.OutcomeTimedOut},
		{"deadline with pushback", expired, answered(codes.DeadlineExceeded, pushback), policy.OutcomePushedBack},
		{"unknown", t.Context(), answered(codes.Unknown, nil), policy.OutcomeFailed},
		{"unimplemented", t.Context(), answered(codes.Unimplemented, nil), policy.OutcomeFailed},
		{"data loss", t.Context(), answered(codes.DataLoss, nil), policy.OutcomeFailed},
		{"internal with pushback", t.Context(), answered(codes.Internal, pushback), policy.OutcomeFailed},
		{"exhausted", t.Context(), answered(codes.ResourceExhausted, nil), policy.OutcomeFailed},
		{"exhausted with pushback", t.Context(), answered(codes.ResourceExhausted, pushback), policy.OutcomePushedBack},
		{"unavailable", t.Context(), answered(codes.Unavailable, nil), policy.OutcomeFailed},
		{"unavailable with pushback", t.Context(), answered(codes.Unavailable, pushback), policy.OutcomePushedBack},
		{"broken off", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.Unavailable, "reset"), BytesSent: true,
		}, policy.OutcomeBroken},
		{"reset as canceled", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.Canceled, "reset"), BytesSent: true,
		}, policy.OutcomeBroken},
		{"canceled by the client before the head", canceled, balancer.DoneInfo{
			Err: status.Error(codes.Canceled, "text"), BytesSent: true,
		}, policy.OutcomeDropped},
		{"deadline before the head", expired, balancer.DoneInfo{
			Err: status.Error(codes.DeadlineExceeded, "text"), BytesSent: true,
		}, policy.OutcomeTimedOut},
		{"lost while it sends", t.Context(), balancer.DoneInfo{BytesSent: true}, policy.OutcomeBroken},
		{"lost as it is canceled", canceled, balancer.DoneInfo{BytesSent: true}, policy.OutcomeBroken},
		{"waits at a connection that drains", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.Unavailable, textDraining),
		}, policy.OutcomeDropped},
		{"was sent to a connection that drains", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.Unavailable, textDraining), BytesSent: true,
		}, policy.OutcomePushedBack},
		{"says so after a head", t.Context(), answeredWith(codes.Unavailable, textDraining), policy.OutcomeFailed},
		{"no stream", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.Unavailable, "refused"),
		}, policy.OutcomeNoConnection},
		{"refused by the client's credentials", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.Unauthenticated, "no token"),
		}, policy.OutcomeDropped},
		{"credentials that fail", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.Internal, "no token"),
		}, policy.OutcomeDropped},
		{"canceled before it got a stream", canceled, balancer.DoneInfo{
			Err: status.Error(codes.Canceled, "text"),
		}, policy.OutcomeDropped},
		{"deadline before it got a stream", expired, balancer.DoneInfo{
			Err: status.Error(codes.DeadlineExceeded, "text"),
		}, policy.OutcomeTimedOut},
		{"message too large to send", t.Context(), balancer.DoneInfo{
			Err: status.Error(codes.ResourceExhausted, "trying to send message larger than max"), BytesSent: true,
		}, policy.OutcomeDropped},
		{"message too large to receive", t.Context(), balancer.DoneInfo{
			Err:       status.Error(codes.ResourceExhausted, "received message larger than max"),
			BytesSent: true, BytesReceived: true,
		}, policy.OutcomeFailed},
	} {
		if got := outcomeOf(test.ctx, &test.info); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// serveFrames serves HTTP/2 that answers the last data of each call with a frame.
func serveFrames(t *testing.T, answer func(stream uint32) []byte) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	serveConnection := func(conn net.Conn) {
		defer conn.Close()
		preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		_, err := io.ReadFull(conn, preface)
		conn.Write(frame(frameSettings, 0))
		for head := make([]byte, 9); err == nil; {
			if _, err = io.ReadFull(conn, head); err != nil {
				return
			}
			_, err = io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
			if head[3] == frameData && head[4]&endStream != 0 {
				conn.Write(answer(binary.BigEndian.Uint32(head[5:])))
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveConnection(conn)
		}
	}()
	return &server{address: listener.Addr().String()}
}

const (
	frameData     = 0
	endStream     = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7
)

// frame returns an HTTP/2 frame of numbers.
func frame(kind byte, stream uint32, numbers ...uint32) []byte {
	frame := []byte{0, 0, byte(4 * len(numbers)), kind, 0}
	for _, number := range append([]uint32{stream}, numbers...) {
		frame = binary.BigEndian.AppendUint32(frame, number)
	}
	return frame
}

// The texts by which a call is known that no server has begun are those of gRPC.
func TestCallsThatTheServerEndsBeforeAHead(t *testing.T) {
	reset := func(code uint32) func(uint32) []byte {
		return func(stream uint32) []byte { return frame(frameReset, stream, code) }
	}
	for _, test := range []struct {
		name   string
		answer func(stream uint32) []byte
		want   policy.Outcome
	}{
		{"going away", func(uint32) []byte { return frame(frameGoAway, 0, 0, 0) }, policy.OutcomePushedBack},
		{"refused", reset(7), policy.OutcomePushedBack},
		{"canceled", reset(8), policy.OutcomeBroken},
		{"calmed", reset(11), policy.OutcomeBroken},
	} {
		c := dial(t, `{"probe": {"transport": "none"}}`, []*server{serveFrames(t, test.answer)})
		c.connected(t, 1)
		watched := watchHeads(t, c)
		watched.first.Store(-1)
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		defer cancel()
		if _, err := c.call(ctx); err == nil {
			t.Errorf("%s: the call succeeded", test.name)
		}
		// gRPC sends a call that was not begun once more.
		if got := policy.Outcome(watched.first.Load()); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// refusing are credentials of calls that refuse each call.
type refusing struct{ err error }

func (r refusing) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, r.err
}

func (refusing) RequireTransportSecurity() bool { return false }

// Calls that fail within the client are neither latencies nor failures of an endpoint.
func TestCallsThatEndInTheClient(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, `{}`, []*server{s})
	c.connected(t, 1)
	watched := watchHeads(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	for _, test := range []struct {
		name   string
		option grpc.CallOption
	}{
		{"refused", grpc.PerRPCCredentials(refusing{status.Error(codes.Unauthenticated, "no token")})},
		{"broken credentials", grpc.PerRPCCredentials(refusing{errors.New("no token")})},
		{"too large", grpc.MaxCallSendMsgSize(1)},
	} {
		request := &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: make([]byte, 64)}}
		watched.last.Store(-1)
		_, err := c.UnaryCall(ctx, request, test.option)
		if code := status.Code(err); code == codes.OK {
			t.Errorf("%s: the call succeeded", test.name)
		}
		if got := policy.Outcome(watched.last.Load()); got != policy.OutcomeDropped {
			t.Errorf("%s: %v, want %v; %v", test.name, got, policy.OutcomeDropped, err)
		}
	}
	if got := s.calls.Load(); got != 0 {
		t.Errorf("%d calls at the server", got)
	}
}

func TestOnlyAnEmptyDoneInfoIsNeverSent(t *testing.T) {
	if !neverSent(&balancer.DoneInfo{}) {
		t.Error("the empty one was sent")
	}
	for _, info := range []balancer.DoneInfo{
		{Err: status.Error(codes.Unavailable, "")}, {BytesSent: true}, {BytesReceived: true},
	} {
		if neverSent(&info) {
			t.Errorf("%+v was not sent", info)
		}
	}
}

// orcaReport encodes named metrics as a server does, after fields that are skipped.
func orcaReport(metrics map[string]float64) string {
	message := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
	message = protowire.AppendFixed64(message, math.Float64bits(0.5))
	for name, value := range metrics {
		entry := protowire.AppendTag(nil, mapKeyField, protowire.BytesType)
		entry = protowire.AppendString(entry, name)
		entry = protowire.AppendTag(entry, mapValueField, protowire.Fixed64Type)
		entry = protowire.AppendFixed64(entry, math.Float64bits(value))
		message = protowire.AppendTag(message, namedMetricsField, protowire.BytesType)
		message = protowire.AppendBytes(message, entry)
	}
	return string(message)
}

func TestCarriedReports(t *testing.T) {
	for _, test := range []struct {
		name    string
		metrics map[string]float64
		want    policy.LoadReport
		ok      bool
	}{
		{name: "none"},
		{name: "others", metrics: map[string]float64{"queue": 3}},
		{
			name:    "all",
			metrics: map[string]float64{carriedRIF: 3, carriedCapacity: 4.5, carriedCost: 0.002, plainLatency: 1500, plainRIF: 9},
			want: policy.LoadReport{
				RIF: 3, Latency: 1500 * time.Microsecond, CapacityMilliRIF: policy.Some[uint32](4500),
				Cost: policy.Some(2 * time.Millisecond),
			},
			ok: true,
		},
		{name: "plain", metrics: map[string]float64{plainRIF: 2}, want: policy.LoadReport{RIF: 2}, ok: true},
		{name: "no load", metrics: map[string]float64{carriedRIF: 0}, ok: true},
		{name: "capacity alone", metrics: map[string]float64{carriedCapacity: 4}},
		{name: "not a number", metrics: map[string]float64{carriedRIF: math.NaN()}},
		{name: "infinite", metrics: map[string]float64{carriedRIF: math.Inf(1)}},
		{name: "negative", metrics: map[string]float64{carriedRIF: -1}},
		{
			name:    "huge",
			metrics: map[string]float64{carriedRIF: 1e300, carriedCapacity: 1e300, carriedCost: 1e300},
			want: policy.LoadReport{
				RIF: math.MaxUint32, CapacityMilliRIF: policy.Some[uint32](math.MaxUint32),
				Cost: policy.Some[time.Duration](math.MaxInt64),
			},
			ok: true,
		},
		{
			name:    "zeros are unknown",
			metrics: map[string]float64{carriedRIF: 1, carriedCapacity: 0, carriedCost: -1, plainLatency: math.NaN()},
			want:    policy.LoadReport{RIF: 1}, ok: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := carriedReport(metadata.Pairs(carriedKey, orcaReport(test.metrics)))
			if ok != test.ok || got != test.want {
				t.Errorf("%+v, %v; want %+v, %v", got, ok, test.want, test.ok)
			}
		})
	}
	two := orcaReport(map[string]float64{carriedRIF: 1})
	if _, ok := carriedReport(metadata.Pairs(carriedKey, two, carriedKey, two)); ok {
		t.Error("two reports count as one")
	}
}

func TestCarriedReportsOfTheLoadTrailer(t *testing.T) {
	all := policy.LoadReport{
		RIF: 3, CapacityMilliRIF: policy.Some[uint32](4500), Cost: policy.Some(2 * time.Microsecond),
	}
	orca := orcaReport(map[string]float64{carriedRIF: 9})
	for _, test := range []struct {
		name    string
		trailer metadata.MD
		want    policy.LoadReport
		ok      bool
	}{
		{name: "all", trailer: metadata.Pairs(loadKey, "3;4500;2000"), want: all, ok: true},
		{name: "of a later version", trailer: metadata.Pairs(loadKey, "3;4500;2000;7;x"), want: all, ok: true},
		{name: "nothing but RIF", trailer: metadata.Pairs(loadKey, "3;;"), want: policy.LoadReport{RIF: 3}, ok: true},
		{
			name:    "beside ORCA",
			trailer: metadata.Pairs(loadKey, "3;4500;2000", carriedKey, orca), want: all, ok: true,
		},
		{
			name:    "largest",
			trailer: metadata.Pairs(loadKey, "4294967295;4294967295;18446744073709551615"),
			want: policy.LoadReport{
				RIF: math.MaxUint32, CapacityMilliRIF: policy.Some[uint32](math.MaxUint32),
				Cost: policy.Some[time.Duration](math.MaxInt64),
			},
			ok: true,
		},
		{name: "twice", trailer: metadata.Pairs(loadKey, "3;4500;2000", loadKey, "3;4500;2000")},
		{name: "empty", trailer: metadata.Pairs(loadKey, "")},
		{name: "one number", trailer: metadata.Pairs(loadKey, "3")},
		{name: "too large", trailer: metadata.Pairs(loadKey, "4294967296;;")},
		{name: "negative", trailer: metadata.Pairs(loadKey, "-1;;")},
		{name: "not a number", trailer: metadata.Pairs(loadKey, "3;4k;")},
		{name: "huge", trailer: metadata.Pairs(loadKey, strings.Repeat("9", 1<<20)+";;")},
		{name: "wrong, beside ORCA", trailer: metadata.Pairs(loadKey, "x", carriedKey, orca)},
	} {
		got, ok := carriedReport(test.trailer)
		if ok != test.ok || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}

func FuzzCarriedReport(f *testing.F) {
	f.Add(orcaReport(map[string]float64{carriedRIF: 3, carriedCost: 1}))
	f.Add("\x42\x05\x0a\x03rif")
	f.Add("3;4500;2000")
	f.Fuzz(func(t *testing.T, message string) {
		for _, key := range []string{carriedKey, loadKey} {
			report, ok := carriedReport(metadata.Pairs(key, message))
			if !ok && report != (policy.LoadReport{}) {
				t.Errorf("%s refused, but %+v", key, report)
			}
			if report.Latency < 0 || report.Cost.Value < 0 {
				t.Errorf("negative time in %+v of %s", report, key)
			}
		}
	})
}
