package load

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// carriedKey is the trailer with a server's load.
var carriedKey = strings.ToLower(probe.HeaderLoad)

// connection is a client's connection.
type connection struct {
	// carries says that a probe on it has requested reports with responses.
	carries atomic.Bool
}

// connectionKey is the key of a handler's own connections.
type connectionKey struct{ handler *handler }

func (h *handler) connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{h}).(*connection)
	return c
}

// carry lets the further calls of the connection of ctx carry reports.
func (h *handler) carry(ctx context.Context) {
	if c := h.connectionOf(ctx); c != nil && !c.carries.Load() {
		c.carries.Store(true)
	}
}

// carries reports whether the trailers of a call must have a report. A server that drains sends
// none, so that it is probed, and clients learn of it.
func (c *call) carries() bool {
	return c.connection != nil && c.connection.carries.Load() && !c.handler.load.Draining()
}

// carriedTrailer returns the trailer with the load, without the call that is answered.
func (h *handler) carriedTrailer(c *call) metadata.MD {
	report := c.query.Carried()
	if report.RIF >= trailersKept {
		return newTrailer(&report)
	}
	kept := h.trailers.Load()
	if kept == nil || kept.capacity != report.CapacityMilliRIF || kept.cost != report.Cost {
		kept = &trailers{capacity: report.CapacityMilliRIF, cost: report.Cost}
		h.trailers.Store(kept)
	}
	trailer := &kept.byRIF[report.RIF]
	if found := trailer.Load(); found != nil {
		return *found
	}
	made := newTrailer(&report)
	trailer.Store(&made)
	return made
}

func newTrailer(report *policy.LoadReport) metadata.MD {
	return metadata.MD{carriedKey: {string(probe.AppendCarried(nil, report))}}
}

// trailersKept is the number of requests in flight for which trailers are kept.
const trailersKept = 64

// trailers are those of one capacity and cost, which change some 20 times a second. They are not
// changed, and gRPC copies them.
type trailers struct {
	capacity policy.Optional[uint32]
	cost     policy.Optional[time.Duration]
	byRIF    [trailersKept]atomic.Pointer[metadata.MD]
}

// watchUnary notes that the handler of a unary call has returned, and adds a report to the trailers
// unless the call fails.
func (h *handler) watchUnary(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	response, err := handle(ctx, request)
	if c := h.callOf(ctx); c != nil && c.query != nil {
		c.returned.Store(true)
		if err == nil && c.carries() {
			_ = grpc.SetTrailer(ctx, h.carriedTrailer(c))
		}
	}
	return response, err
}

// watchStream does so for a streaming call, and notes if its handler fails.
func (h *handler) watchStream(
	server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	err := handle(server, stream)
	c := h.callOf(stream.Context())
	if c == nil || c.query == nil {
		return err
	}
	c.returned.Store(true)
	switch {
	case err != nil:
		c.failed.Store(true)
	case c.carries():
		stream.SetTrailer(h.carriedTrailer(c))
	}
	return err
}
