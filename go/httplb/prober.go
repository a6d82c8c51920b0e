package httplb

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// token says what a probe is for: the policy, or a round that a request waits for.
type token struct {
	probe   policy.ProbeID
	replica policy.ReplicaID
	round   *round
}

// prober sends probes. Answers go to the balancer.
type prober interface {
	// send sends a probe and does not wait for its answer. An error says that it was not sent.
	send(to *replica, t token, hint []byte, timeout time.Duration) error
	// count fills in what has happened to the probes.
	count(snapshot *Snapshot)
	// close ends all probes, and waits until no answer is being handed on.
	close() error
}

// noProber is for policies that balance by what the client measures.
type noProber struct{}

func (noProber) send(*replica, token, []byte, time.Duration) error { return probe.ErrUnsupported }
func (noProber) count(*Snapshot)                                   {}
func (noProber) close() error                                      { return nil }

// The least that a client of probes may have outstanding. Those of requests that wait for answers
// come beside those that [policy.PrequalSettings] limits.
const (
	udpOutstandingMin  = 1024
	httpOutstandingMin = 256
)

// outstandingMax returns how many probes may be outstanding.
func outstandingMax(o *options, least int) int {
	return max(least, int(o.settings.Prequal.ProbesOutstandingMax))
}

// udpProber probes over UDP.
type udpProber struct{ client *probe.Client[token] }

func newUDPProber(b *balancer, o *options) (*udpProber, error) {
	client, err := probe.NewClient(probe.ClientOptions[token]{
		Answered:    func(answer *probe.Answer[token]) { b.report(answer.Token, &answer.Report) },
		Key:         o.probeKey,
		LocalV4:     o.localV4,
		LocalV6:     o.localV6,
		Outstanding: outstandingMax(o, udpOutstandingMin),
	})
	if err != nil {
		return nil, err
	}
	return &udpProber{client: client}, nil
}

func (p *udpProber) send(to *replica, t token, hint []byte, timeout time.Duration) error {
	return p.client.Send(to.probeAddr, t, hint, timeout)
}

func (p *udpProber) count(snapshot *Snapshot) { snapshot.UDPProbes = p.client.Counts() }

func (p *udpProber) close() error { return p.client.Close() }

// httpProber probes over HTTP, each probe on a goroutine that ends at its deadline. The client
// limits how many there are.
type httpProber struct {
	balancer *balancer
	client   probe.HTTPClient
	ctx      context.Context
	cancel   context.CancelFunc

	mu       sync.Mutex
	isClosed bool
	probes   sync.WaitGroup
}

func newHTTPProber(b *balancer, o *options) *httpProber {
	p := &httpProber{balancer: b, client: probe.HTTPClient{
		Key: o.probeKey, Outstanding: outstandingMax(o, httpOutstandingMin),
	}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if base, ok := o.base.(*http.Transport); ok {
		// The same TLS configuration and dialer, and connections of their own, so that probes do not
		// wait for those of requests.
		p.client.Client = &http.Client{
			Transport:     probe.Bounded(base.Clone()),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return p
}

func (p *httpProber) send(to *replica, t token, hint []byte, timeout time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return context.Canceled
	}
	p.probes.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, timeout)
		defer cancel()
		report, err := p.client.Probe(ctx, to.probeURL, hint)
		switch {
		case err == nil:
			p.balancer.report(t, &report)
		case isFull(err):
			p.balancer.ended(t, policy.EventProbeUnsent)
		default:
			p.balancer.lost(t)
		}
	})
	return nil
}

func (p *httpProber) count(snapshot *Snapshot) { snapshot.HTTPProbes = p.client.Counts() }

func (p *httpProber) close() error {
	p.mu.Lock()
	p.isClosed = true
	p.mu.Unlock()
	p.cancel()
	p.probes.Wait()
	p.client.CloseIdleConnections()
	return nil
}

// isFull reports whether a probe was not sent through no fault of the replica.
func isFull(err error) bool { return errors.Is(err, probe.ErrFull) }
