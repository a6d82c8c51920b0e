package slackwatergrpc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/slackwater/slackwater/go/grpc/probepb"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// transport sends the probes of an engine, and passes what becomes of them to engine.answered or
// engine.failed. A probe that is not answered by its deadline needs neither.
type transport interface {
	// send sends one probe. It returns at the probe's deadline at the latest, or when the prober is
	// closed.
	send(p *prober, job probeJob)
	// close ends everything that the transport has open. No probe is sent any more.
	close()
}

func newTransport(e *engine) (transport, error) {
	var key *probe.Key
	if name := e.config.probe.key; name != "" {
		var known bool
		if key, known = keys.find(name); !known {
			// It was there when the configuration was parsed. Without it, forged reports would be
			// believed.
			return nil, fmt.Errorf("probe.key %q is no longer registered", name)
		}
	}
	outstanding := int(e.config.settings.Prequal.ProbesOutstandingMax)
	switch e.config.probe.transport {
	case transportGRPC:
		return newCallTransport(e), nil
	case transportUDP:
		return newDatagramTransport(e, key, outstanding)
	case transportHTTP:
		return &httpTransport{
			path:   e.config.probe.path,
			client: probe.HTTPClient{Key: key, Outstanding: outstanding},
		}, nil
	case transportNone:
		return noTransport{}, nil
	}
	return nil, fmt.Errorf("unknown transport of probes %q", e.config.probe.transport)
}

// callTransport probes by a unary call on the connection itself, with its credentials.
type callTransport struct{ request *probepb.ProbeRequest }

func newCallTransport(e *engine) callTransport {
	return callTransport{request: &probepb.ProbeRequest{Carry: e.config.readsCarried()}}
}

func (t callTransport) send(p *prober, job probeJob) {
	awaitAnswer(p, job, func(ctx context.Context) (policy.LoadReport, error) {
		report, err := probepb.NewLoadClient(p.conn).Probe(ctx, t.request)
		return report.AsLoadReport(), err
	})
}

func (callTransport) close() {}

// httpTransport probes by GET requests without TLS.
type httpTransport struct {
	path   string
	client probe.HTTPClient
}

func (t *httpTransport) send(p *prober, job probeJob) {
	awaitAnswer(p, job, func(ctx context.Context) (policy.LoadReport, error) {
		return t.client.Probe(ctx, "http://"+job.target+t.path, nil)
	})
}

func (t *httpTransport) close() { t.client.CloseIdleConnections() }

// awaitAnswer sends a probe by ask, which waits for the answer.
func awaitAnswer(
	p *prober, job probeJob, ask func(context.Context) (policy.LoadReport, error),
) {
	ctx, cancel := context.WithDeadline(p.ctx, job.engine.timeOf(job.probe.Deadline))
	defer cancel()
	sent := time.Now()
	report, err := ask(ctx)
	switch {
	case err == nil:
		job.engine.answered(job.probe.ID, &report, time.Since(sent))
	case ctx.Err() != nil:
		// The policy watches the deadline itself. A closed connection shows nothing.
	default:
		job.engine.failed(job, err)
	}
}

// datagramTransport probes by UDP, through one socket for all endpoints.
type datagramTransport struct {
	client *probe.Client[policy.ProbeID]
}

func newDatagramTransport(e *engine, key *probe.Key, outstanding int) (*datagramTransport, error) {
	client, err := probe.NewClient(probe.ClientOptions[policy.ProbeID]{
		Answered: func(answer *probe.Answer[policy.ProbeID]) {
			e.answered(answer.Token, &answer.Report, answer.RoundTrip)
		},
		Key:         key,
		Outstanding: outstanding,
	})
	if err != nil {
		return nil, err
	}
	return &datagramTransport{client: client}, nil
}

func (t *datagramTransport) send(_ *prober, job probeJob) {
	to, err := netip.ParseAddrPort(job.target)
	if err == nil {
		err = t.client.Send(to, job.probe.ID, nil, time.Until(job.engine.timeOf(job.probe.Deadline)))
	}
	if err != nil {
		job.engine.failed(job, err)
	}
}

func (t *datagramTransport) close() {
	if err := t.client.Close(); err != nil {
		logger.Warningf("socket of probes not closed: %v", err)
	}
}

// noTransport is for policies without probes.
type noTransport struct{}

func (noTransport) send(_ *prober, job probeJob) {
	job.engine.failed(job, errors.New("probing is off"))
}

func (noTransport) close() {}
