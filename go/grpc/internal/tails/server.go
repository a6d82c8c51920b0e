package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slackwater/slackwater/go/grpc/load"
)

// The kinds of servers. A usual call takes 5 ms in the mean, and a server has room for 4 at a time.
const (
	usual = "usual"
	// slow takes five times as long.
	slow = "slow"
	// failing fails every second call at once.
	failing = "failing"
	// stalling stands still for half a second, every three seconds.
	stalling = "stalling"
	// instant answers at once.
	instant = "instant"
)

const (
	meanService = 5 * time.Millisecond
	room        = 4
	slowness    = 5
	stallEvery  = 3 * time.Second
	stallFor    = 500 * time.Millisecond
)

// method is the one method of the service; it has no proto of its own.
const method = "/slackwater.tails.v1.Work/Do"

// worker answers calls after the time that its kind takes.
type worker struct {
	kind    string
	permits chan struct{}
	began   time.Time
	metrics orca.ServerMetricsRecorder
	calls   atomic.Uint64
	failed  atomic.Uint64
	inside  atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
}

func serve(arguments []string) error {
	kind, seed := usual, uint64(1)
	if len(arguments) != 2 {
		return fmt.Errorf("serve takes a kind and a seed")
	}
	kind = arguments[0]
	if _, err := fmt.Sscan(arguments[1], &seed); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", listener.Addr().String())
	if err != nil {
		return err
	}
	metrics := orca.NewServerMetricsRecorder()
	w := &worker{
		kind:    kind,
		permits: make(chan struct{}, room),
		began:   time.Now(),
		metrics: metrics,
		random:  rand.New(rand.NewPCG(seed, 0)),
	}
	reporter := load.New()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { _ = reporter.ServeUDP(ctx, socket) }()
	go w.report(ctx)
	options := append(reporter.ServerOptions(), orca.CallMetricsServerOption(metrics))
	server := grpc.NewServer(options...)
	reporter.Register(server)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "slackwater.tails.v1.Work",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Do", Handler: w.handle}},
	}, w)
	context.AfterFunc(ctx, server.Stop)
	// The parent reads the address.
	fmt.Println(listener.Addr())
	return server.Serve(listener)
}

func (w *worker) handle(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.BytesValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	do := func(ctx context.Context, _ any) (any, error) {
		// gRPC sends the server's metrics with a call only if something has asked for the call's own.
		_ = orca.CallMetricsRecorderFromContext(ctx)
		return in, w.do(ctx)
	}
	if intercept == nil {
		return do(ctx, in)
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{Server: w, FullMethod: method}, do)
}

// do takes as long as a call at this server.
func (w *worker) do(ctx context.Context) error {
	if w.kind == instant {
		w.calls.Add(1)
		return nil
	}
	w.inside.Add(1)
	defer w.inside.Add(-1)
	span, fails := w.draw()
	if fails {
		w.failed.Add(1)
		return status.Error(codes.Unavailable, "this server fails every second call")
	}
	select {
	case w.permits <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-w.permits }()
	if w.kind == stalling {
		if into := time.Since(w.began) % stallEvery; into < stallFor {
			span += stallFor - into
		}
	}
	select {
	case <-time.After(span):
		w.calls.Add(1)
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// draw returns how long the next call takes, and whether it fails.
func (w *worker) draw() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	span := time.Duration(w.random.ExpFloat64() * float64(meanService))
	if w.kind == slow {
		span *= slowness
	}
	return span, w.kind == failing && w.random.IntN(2) == 0
}

// report gives weighted_round_robin what it needs: the rates of calls and of errors, and the
// utilization.
func (w *worker) report(ctx context.Context) {
	const every = 200 * time.Millisecond
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	last, lastFailed := uint64(0), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		failed := w.failed.Load()
		calls := w.calls.Load() + failed
		w.metrics.SetQPS(float64(calls-last) / every.Seconds())
		w.metrics.SetEPS(float64(failed-lastFailed) / every.Seconds())
		last, lastFailed = calls, failed
		used := float64(w.inside.Load()) / room
		if w.kind == instant {
			used = 0.5
		}
		w.metrics.SetApplicationUtilization(max(used, 0.01))
	}
}
