package load

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"

	"github.com/slackwater/slackwater/go/load"
)

// handler counts calls. gRPC calls it for each event of each call, so it leaves the events that are
// of no use before it does anything else.
type handler struct {
	load     *load.Load
	excluded map[string]struct{}
	// trailers are those of the latest carried reports.
	trailers atomic.Pointer[trailers]
}

// trailerState is what is known of a call's trailers.
type trailerState = uint32

const (
	noTrailers trailerState = iota
	plainTrailers
	pushbackTrailers
)

// call is the context of a call, and what is known of the call. It is one allocation.
type call struct {
	context.Context
	handler    *handler
	connection *connection
	// query is nil until the call begins.
	query *load.Query
	// streams says that the call may have more than one response.
	streams bool
	// returned says that the handler has returned, so that it did not panic. Only interceptors know.
	returned atomic.Bool
	// failed says that the handler of a streaming call has returned an error.
	failed   atomic.Bool
	trailers atomic.Uint32
}

// callKey is the key of a handler's own calls. A server may have several handlers, and all get the
// context that the last one made.
type callKey struct{ handler *handler }

// Value returns the call itself for its own key, and the values of its parent for all others.
func (c *call) Value(key any) any {
	if key == (callKey{c.handler}) {
		return c
	}
	return c.Context.Value(key)
}

// TagRPC makes room for the state of a call. It does not count the call yet: of a method that the
// server does not have, gRPC reports neither the begin nor the end.
func (h *handler) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if _, excluded := h.excluded[info.FullMethodName]; excluded {
		return ctx
	}
	return &call{Context: ctx, handler: h, connection: h.connectionOf(ctx)}
}

// callOf returns the call of ctx, or nil if it does not count.
func (h *handler) callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{h}).(*call)
	return c
}

// HandleRPC counts the begin and the end of a call, and measures the time until its head is sent.
func (h *handler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	switch event.(type) {
	case *stats.Begin, *stats.OutHeader, *stats.OutPayload, *stats.OutTrailer, *stats.End:
	default:
		return
	}
	c := h.callOf(ctx)
	if c == nil || event.IsClient() {
		return
	}
	if event, begins := event.(*stats.Begin); begins && event != nil {
		// A handler that is installed twice counts once.
		if c.query == nil {
			c.query, c.streams = h.load.Begin(), event.IsServerStream
		}
		return
	}
	if c.query == nil {
		return
	}
	switch event := event.(type) {
	case *stats.OutHeader:
		// Only a stream may have a head long before its first response. Metadata that a handler has
		// set is a head of its own also before a status of failure, which is no sample of latency.
		if c.streams && !c.failed.Load() {
			c.query.Head(load.Success)
		}
	case *stats.OutPayload:
		c.query.Head(load.Success)
	case *stats.OutTrailer:
		state := plainTrailers
		if len(event.Trailer[pushbackKey]) > 0 {
			state = pushbackTrailers
		}
		c.trailers.Store(state)
	case *stats.End:
		c.query.End(endOf(ctx, event.Error, c.returned.Load(), c.trailers.Load()))
	}
}

// TagConn makes room for the state of a connection.
func (h *handler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{h}, new(connection))
}

// HandleConn does nothing: connections are not counted.
func (*handler) HandleConn(context.Context, stats.ConnStats) {}
