package interop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/slackwater/slackwater/go/httplb"
	"github.com/slackwater/slackwater/go/httpload"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/probe"
)

// settleMax is how long a proxy waits for its last requests to end. It is below the time after
// which the suite kills it.
const settleMax = 3 * time.Second

// balancedProxy is what httplb and httpload know of the requests of a proxy.
type balancedProxy struct {
	transport *httplb.Transport
	load      *load.Load
}

// balance puts httplb over the transport, and returns the middleware of httpload. The reference
// servers answer no probes, so the proxy's own load stands for theirs.
func (p *proxy) balance(
	ctx context.Context, inner http.RoundTripper, addresses []string,
) (http.RoundTripper, func(http.Handler) http.Handler, error) {
	l := load.New(load.Options{})
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	var replicas []httplb.Replica
	for _, address := range addresses {
		replicas = append(replicas, httplb.Replica{URL: "http://" + address, Probe: socket.LocalAddr().String()})
	}
	transport, err := httplb.New(replicas, httplb.WithBase(inner))
	if err != nil {
		return nil, nil, errors.Join(err, socket.Close())
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		responder := probe.Responder{Report: l.Report}
		_ = responder.Serve(context.WithoutCancel(ctx), socket)
	}()
	b := &balancedProxy{transport: transport, load: l}
	p.check = b.check
	p.closeBalancer = func() {
		_ = transport.Close()
		_ = socket.Close()
		<-answered
	}
	around := func(next http.Handler) http.Handler {
		return httpload.Handler(l, next, httpload.WithCarriedReports())
	}
	return transport, around, nil
}

// check waits until no request is in flight on either side, and returns what is wrong with the
// counts.
func (b *balancedProxy) check() (string, error) {
	for deadline := time.Now().Add(settleMax); ; time.Sleep(5 * time.Millisecond) {
		rif, inFlight := b.load.RIF(), b.transport.Snapshot().InFlight
		if rif == 0 && inFlight == 0 {
			break
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%d requests in flight in httpload and %d in httplb after all have ended", rif, inFlight)
		}
	}
	snapshot := b.transport.Snapshot()
	if snapshot.Counters.ProbesAnswered == 0 {
		return "", fmt.Errorf("no probe was answered: %+v", snapshot.Counters)
	}
	picks := map[string]uint64{}
	for reason, count := range snapshot.Counters.Picks.All() {
		if count > 0 {
			picks[reason.String()] = count
		}
	}
	return fmt.Sprintf("requests in httpload: %+v; probes answered in httplb: %d of %d, picks: %v",
		b.load.Counts(), snapshot.Counters.ProbesAnswered, snapshot.Counters.ProbesSent, picks), nil
}
