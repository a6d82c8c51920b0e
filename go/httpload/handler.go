package httpload

import (
	"context"
	"net/http"
	"time"

	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/probe"
)

// Option changes a setting of [Handler].
type Option func(*handler)

// WithProbePath answers probes at path, which is compared with a request's path byte by byte. An
// empty path answers none, and the application gets every request: for servers that answer probes
// over UDP only. Default [probe.Path].
func WithProbePath(path string) Option { return func(h *handler) { h.probePath = path } }

// WithKey answers only probes that are signed with key, and signs the answers. All other probes get
// status 403. Default: nothing is signed.
func WithKey(key *probe.Key) Option { return func(h *handler) { h.probes.Key = key } }

// WithCarriedReports puts the replica's load into the head of every response, in
// [probe.HeaderLoad]: RIF without the request that is answered, and capacity and cost if known. It
// is for clients whose policy learns from it and then needs few probes. The header is never signed,
// and is absent from responses to rejected requests. Leave it off if the receivers of responses
// must not know the load: of all hops, only a balancer with such a policy removes the header.
// Default off.
func WithCarriedReports() Option { return func(h *handler) { h.carries = true } }

type handler struct {
	load      *load.Load
	next      http.Handler
	probePath string
	probes    probe.Handler
	carries   bool
}

// Handler returns a handler that serves requests with next, counts them in load, and answers probes
// itself.
//
// A request is in flight until next returns, and its latency ends when the status is written. It
// failed if that is 500 or more, if a gRPC status blames the server, or if next panics. It was
// cancelled if its client left, or if the answer is a pushback: 429 or 503 with retry-after, or the
// same of gRPC. A cancelled request is neither an error nor a sample of latency.
//
// Handlers can use [http.ResponseController], and [http.Flusher], [http.Hijacker] and
// [io.ReaderFrom] where the server offers them. [http.Pusher] is not passed on.
func Handler(load *load.Load, next http.Handler, options ...Option) http.Handler {
	h := &handler{load: load, next: next, probePath: probe.Path}
	h.probes.Report = load.Report
	for _, option := range options {
		option(h)
	}
	return h
}

// ServeHTTP answers a probe, or counts a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The path is empty in requests such as "GET http://host HTTP/1.1".
	isProbe := h.probePath != "" && r.URL.Path == h.probePath && r.URL.RawPath == ""
	if isProbe && r.Method == http.MethodGet {
		h.probes.ServeHTTP(w, r)
		return
	}
	inner, outer := wrap(w)
	inner.query, inner.request, inner.carries = h.load.Begin(), r, h.carries
	returned := false
	defer func() {
		if returned {
			inner.returned()
			return
		}
		// A panic, or runtime.Goexit, for which there is nothing to recover.
		reason := recover()
		inner.panicked(reason)
		if reason != nil {
			panic(reason)
		}
	}()
	h.next.ServeHTTP(outer, r)
	returned = true
}

// Shutdown ends a server without a failed request. It drains load, so that probes ask clients to
// stay away, serves for the time announce, in which clients must have probed once or more, and then
// calls [http.Server.Shutdown] with ctx. The end of ctx ends both.
func Shutdown(ctx context.Context, server *http.Server, load *load.Load, announce time.Duration) error {
	load.Drain()
	timer := time.NewTimer(announce)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return server.Shutdown(ctx)
}
