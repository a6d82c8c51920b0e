package slackwatergrpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"

	"github.com/slackwater/slackwater/go/grpc/probepb"
	"github.com/slackwater/slackwater/go/policy"
)

// probesQueued is how many probes may wait for a prober. A policy has one probe to a replica in
// flight. Two can be there for a moment when the first has just passed its deadline.
const probesQueued = 2

// requestCarriedMax is the deadline of a request for reports with responses.
const requestCarriedMax = 5 * time.Second

// probeJob is a probe to send.
type probeJob struct {
	engine *engine
	probe  policy.Probe
	// target is the address for probes by UDP or HTTP.
	target string
}

// prober sends the probes of one READY connection, one after the other. It is a producer of gRPC:
// gRPC closes it as soon as the connection leaves READY.
type prober struct {
	conn   grpc.ClientConnInterface
	ctx    context.Context
	cancel context.CancelFunc
	jobs   chan probeJob
	done   sync.WaitGroup

	mu      sync.Mutex
	started bool
	closed  bool
}

// proberBuilder makes the prober of a connection. All values of it are equal, so a connection has
// one.
type proberBuilder struct{}

func (proberBuilder) Build(conn any) (balancer.Producer, func()) {
	p := &prober{jobs: make(chan probeJob, probesQueued)}
	p.conn, _ = conn.(grpc.ClientConnInterface)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, p.close
}

// offer queues a probe, and returns false if it cannot be sent now. It does not wait. The first
// probe starts the prober's goroutine, so a policy without probes has none.
func (p *prober) offer(job probeJob) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	select {
	case p.jobs <- job:
	default:
		return false
	}
	if !p.started {
		p.started = true
		p.done.Go(p.run)
	}
	return true
}

func (p *prober) run() {
	requested := false
	for {
		select {
		case <-p.ctx.Done():
			return
		case job := <-p.jobs:
			if config := job.engine.config; !requested && config.readsCarried() &&
				config.probe.transport != transportGRPC {
				requested = true
				p.done.Go(p.requestCarried)
			}
			job.engine.transport.send(p, job)
		}
	}
}

// requestCarried lets the server add reports to its responses on this connection, as each probe by
// gRPC does. A server that cannot is balanced by its answers to probes.
func (p *prober) requestCarried() {
	ctx, cancel := context.WithTimeout(p.ctx, requestCarriedMax)
	defer cancel()
	_, err := probepb.NewLoadClient(p.conn).Probe(ctx, &probepb.ProbeRequest{Carry: true})
	if err != nil && logger.V(2) {
		logger.Infof("reports with responses not requested: %v", err)
	}
}

// close cancels the probe in flight, and waits for the goroutine. gRPC calls it with locks held, so
// it must not be called under a lock of this package: the goroutine may be about to take that.
func (p *prober) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.done.Wait()
}
