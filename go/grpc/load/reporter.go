package load

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/grpc/probepb"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/probe"
)

// DefaultDrainDelay is how long [Reporter.GracefulStop] serves on after it has begun to drain,
// unless [WithDrainDelay] says otherwise.
const DefaultDrainDelay = 500 * time.Millisecond

// forcedStopMax is how long GracefulStop waits for a server to stop after its calls were cancelled.
const forcedStopMax = time.Second

// Reporter counts the calls of a gRPC server, and reports the server's load. It is safe for
// concurrent use.
type Reporter struct {
	load       *load.Load
	stats      *handler
	responder  probe.Responder
	drainDelay time.Duration
	orca       bool
}

// Option is a setting of a [Reporter].
type Option func(*Reporter)

// WithLoad counts into l instead of a load of the reporter's own, for example for a process that
// serves HTTP, too. Default: a load that learns capacity and cost from latency, which suits servers
// that mostly wait for others. For one that mostly computes, and is alone in its process,
// load.New(load.Options{CPU: load.ProcessCPU}) measures the CPU time of a call.
func WithLoad(l *load.Load) Option { return func(r *Reporter) { r.load = l } }

// WithProbeKey lets [Reporter.ServeUDP] answer only probes that are signed with key, and signs the
// replies. It has no effect on probes by gRPC, which have the credentials of their connection.
// Default: nothing is signed.
func WithProbeKey(key *probe.Key) Option { return func(r *Reporter) { r.responder.Key = key } }

// WithDrainDelay sets how long [Reporter.GracefulStop] serves on after it has begun to drain, so
// that clients learn of it by their probes. 0 is no delay. Default [DefaultDrainDelay].
func WithDrainDelay(delay time.Duration) Option {
	return func(r *Reporter) { r.drainDelay = max(delay, 0) }
}

// Exclude leaves calls of these methods out of the requests in flight, such as
// "/grpc.testing.TestService/EmptyCall". It is for calls that clients do not balance, above all for
// streams that stay open, such as subscriptions. Some methods are always excluded: those of the
// probe service, of gRPC's health service and of its reflection, and ORCA's stream of reports.
func Exclude(fullMethods ...string) Option {
	return func(r *Reporter) {
		for _, method := range fullMethods {
			r.stats.excluded[method] = struct{}{}
		}
	}
}

// WithORCA makes [Reporter.ServerOptions] add an ORCA report to the trailers of each call: see
// [Reporter.ServerOptions]. Default: no report.
func WithORCA() Option { return func(r *Reporter) { r.orca = true } }

// New returns a reporter with nothing in flight.
func New(options ...Option) *Reporter {
	r := &Reporter{
		stats:      &handler{excluded: make(map[string]struct{})},
		drainDelay: DefaultDrainDelay,
	}
	Exclude(
		probepb.Load_Probe_FullMethodName,
		"/grpc.health.v1.Health/Check",
		"/grpc.health.v1.Health/List",
		"/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
		"/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics",
	)(r)
	for _, option := range options {
		option(r)
	}
	if r.load == nil {
		r.load = load.New(load.Options{})
	}
	r.stats.load = r.load
	r.responder.Report = r.load.Report
	return r
}

// Load returns the load that the reporter counts into.
func (r *Reporter) Load() *load.Load { return r.load }

// StatsHandler returns the handler that counts calls, for [grpc.StatsHandler]. A server may have
// others as well. [Reporter.ServerOptions] includes it.
func (r *Reporter) StatsHandler() stats.Handler { return r.stats }

// ServerOptions returns the options of a server that is counted: its stats handler, its
// interceptors, and with [WithORCA] interceptors that add an ORCA report to the
// trailers of each call. Pass them before other options, so that the reports are made after the
// other interceptors have run.
func (r *Reporter) ServerOptions() []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.StatsHandler(r.stats),
		grpc.ChainUnaryInterceptor(r.stats.watchUnary),
		grpc.ChainStreamInterceptor(r.stats.watchStream),
	}
	if r.orca {
		options = append(options, orcaOptions(r)...)
	}
	return options
}

// Register adds the probe service to a server, by which clients learn the load. Call it before the
// server serves.
func (r *Reporter) Register(server grpc.ServiceRegistrar) {
	probepb.RegisterLoadServer(server, &service{load: r.load, stats: r.stats})
}

// service answers probes over gRPC.
type service struct {
	probepb.UnimplementedLoadServer
	load  *load.Load
	stats *handler
}

// Probe returns the load, scaled for the hint.
func (s *service) Probe(ctx context.Context, request *probepb.ProbeRequest) (*probepb.LoadReport, error) {
	if err := probepb.CheckHint(request.GetHint()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if request.GetCarry() {
		s.stats.carry(ctx)
	}
	return probepb.NewLoadReport(s.load.Report(request.GetHint())), nil
}

// ServeUDP answers probes over UDP on conn until ctx ends or conn is closed, and returns the
// reason. It does not close conn. See [probe.Responder.Serve]. [Reporter.UDPCounts] counts what has
// come.
func (r *Reporter) ServeUDP(ctx context.Context, conn net.PacketConn) error {
	return r.responder.Serve(ctx, conn)
}

// UDPCounts returns what [Reporter.ServeUDP] has answered so far on all its sockets, and what it
// has refused, by reason. Anyone who reaches a socket can send what is refused.
func (r *Reporter) UDPCounts() probe.ResponderCounts { return r.responder.Counts() }

// Drain makes reports ask clients to send no new calls. Calls that still arrive are served. Stop
// the server some probe intervals later; [Reporter.GracefulStop] does both.
func (r *Reporter) Drain() { r.load.Drain() }

// ErrStopped says that a server was stopped before all its calls had ended.
var ErrStopped = errors.New("server stopped with calls in flight")

// GracefulStop drains the server, serves on for the drain delay, and then stops it with
// [grpc.Server.GracefulStop], which waits for the calls in flight. If ctx ends earlier, it stops
// the server at once, which cancels these calls, and returns an error that is both [ErrStopped] and
// the cause of ctx's end.
func (r *Reporter) GracefulStop(ctx context.Context, server *grpc.Server) error {
	r.Drain()
	delay := time.NewTimer(r.drainDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-ctx.Done():
	}
	// Like that of Stop below, this goroutine also waits for handlers that ignore the end of their
	// context.
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
	}
	// Streams that are not counted, such as those of health checks, may be cut without harm.
	cut := r.load.RIF() > 0
	forced := make(chan struct{})
	go func() {
		defer close(forced)
		server.Stop()
	}()
	select {
	case <-forced:
	case <-time.After(forcedStopMax):
	}
	if !cut {
		return nil
	}
	return errors.Join(ErrStopped, context.Cause(ctx))
}
