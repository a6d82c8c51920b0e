package slackwatergrpc

import (
	"context"
	"slices"
	"sync"
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
	// target is that of its channel. A call that is made within it, as by an interceptor, may have
	// its context on another channel.
	target string
	// streams says that it may have more than one response.
	streams bool
	// isHedge says that it is the second of a hedged pair.
	isHedge bool
	// current is the attempt in flight.
	current atomic.Pointer[attempt]
	// tried are its own, or those of the pair.
	tried *triedReplicas
	own   triedReplicas
}

// triedReplicas are the replicas that a call has tried, or that both calls of a hedged pair have.
type triedReplicas struct {
	mu sync.Mutex
	// engine is that of the replicas. Under xDS, a retry may be picked by another one.
	engine   *engine
	replicas []policy.ReplicaID
	// hedged says that one of them has a hedge.
	hedged bool
}

type callKey struct{}

// withCall returns a context for one call. A call that is made within another one has its own.
func withCall(ctx context.Context, target string, streams bool) context.Context {
	c := &call{target: target, streams: streams}
	c.tried = &c.own
	if mark, isMarked := ctx.Value(hedgeKey{}).(*hedgeMark); isMarked && mark.target == target {
		c.tried, c.isHedge = mark.tried, mark.isHedge
	}
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) *call {
	if ctx == nil {
		return nil
	}
	call, _ := ctx.Value(callKey{}).(*call)
	return call
}

// begin notes an attempt that gRPC will send.
func (c *call) begin(a *attempt) {
	c.tried.add(a.engine, a.ticket.Replica(), c.isHedge)
	c.current.Store(a)
}

// takeBack forgets an attempt that was not sent.
func (c *call) takeBack(a *attempt) {
	if c.current.CompareAndSwap(a, nil) {
		c.tried.remove(a.engine, a.ticket.Replica())
	}
}

// of returns the replicas of an engine that have been tried.
func (t *triedReplicas) of(e *engine) []policy.ReplicaID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine != e {
		return nil
	}
	// The other call of a pair may go on.
	return slices.Clone(t.replicas)
}

func (t *triedReplicas) add(e *engine, replica policy.ReplicaID, isHedge bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine != e {
		t.engine, t.replicas = e, nil
	}
	if len(t.replicas) < triedMax && !slices.Contains(t.replicas, replica) {
		t.replicas = append(t.replicas, replica)
	}
	t.hedged = t.hedged || isHedge
}

func (t *triedReplicas) remove(e *engine, replica policy.ReplicaID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if place := slices.Index(t.replicas, replica); t.engine == e && place >= 0 {
		t.replicas = slices.Delete(t.replicas, place, place+1)
	}
}

func (t *triedReplicas) isEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.replicas) == 0
}

func (t *triedReplicas) hasHedge() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hedged
}

func trackUnary(
	ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return invoke(withCall(ctx, cc.CanonicalTarget(), false), method, request, reply, cc, opts...)
}

func trackStream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return open(withCall(ctx, cc.CanonicalTarget(), desc.ServerStreams), desc, cc, method, opts...)
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
