package slackwatergrpc

import (
	"context"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/slackwater/slackwater/go/policy"
)

// triedMax is the most endpoints that a call avoids. gRPC makes at most 5 attempts by default.
const triedMax = 16

// DialOptions returns options of a channel with which the policy knows more of each call. They are
// optional:
//   - The latency of a streaming call ends at the head of its response. Without them it ends with
//     the stream. Policies use latencies of calls for endpoints that answer no probes.
//   - A retry by gRPC avoids the endpoints that the call has tried, and does not count as a new
//     call.
//
// The options add an interceptor for unary calls, one for streams, and a stats handler:
//
//	grpc.NewClient(target, append(slackwatergrpc.DialOptions(), options...)...)
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(trackUnary),
		grpc.WithChainStreamInterceptor(trackStream),
		grpc.WithStatsHandler(headHandler{}),
	}
}

// call is a call through all its attempts. gRPC makes them one after the other.
type call struct {
	// streams says that it may have more than one response.
	streams bool
	// current is the attempt in flight.
	current atomic.Pointer[attempt]
	// engine is that of the tried replicas. Under xDS, a retry may be picked by another one.
	engine *engine
	tried  []policy.ReplicaID
}

type callKey struct{}

// withCall returns a context for one call. A call that is made within another one has its own.
func withCall(ctx context.Context, streams bool) context.Context {
	return context.WithValue(ctx, callKey{}, &call{streams: streams})
}

func callOf(ctx context.Context) *call {
	if ctx == nil {
		return nil
	}
	call, _ := ctx.Value(callKey{}).(*call)
	return call
}

// triedOf returns the replicas of an engine that the call has tried.
func (c *call) triedOf(e *engine) []policy.ReplicaID {
	if c.engine != e {
		return nil
	}
	return c.tried
}

// begin notes an attempt that gRPC will send.
func (c *call) begin(a *attempt) {
	if c.engine != a.engine {
		c.engine, c.tried = a.engine, nil
	}
	replica := a.ticket.Replica()
	if len(c.tried) < triedMax && !slices.Contains(c.tried, replica) {
		c.tried = append(c.tried, replica)
	}
	c.current.Store(a)
}

// takeBack forgets an attempt that was not sent.
func (c *call) takeBack(a *attempt) {
	if last := len(c.tried) - 1; last >= 0 && c.current.CompareAndSwap(a, nil) &&
		c.engine == a.engine && c.tried[last] == a.ticket.Replica() {
		c.tried = c.tried[:last]
	}
}

func trackUnary(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return invoke(withCall(ctx, false), method, request, reply, cc, opts...)
}

func trackStream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return open(withCall(ctx, desc.ServerStreams), desc, cc, method, opts...)
}

// headHandler learns when the head of a response has come.
type headHandler struct{}

var _ stats.Handler = headHandler{}

func (headHandler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, isHead := event.(*stats.InHeader); !isHead {
		return
	}
	// Servers send metadata that a handler has set as a head of its own, also before a status of
	// failure. The one response of other calls comes with its head anyway.
	if call := callOf(ctx); call != nil && call.streams {
		if a := call.current.Load(); a != nil {
			a.head()
		}
	}
}

func (headHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (headHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (headHandler) HandleConn(context.Context, stats.ConnStats) {}
