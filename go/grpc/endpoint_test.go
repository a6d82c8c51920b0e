package slackwatergrpc

import (
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// fakeSubConn is a connection with a prober, as gRPC keeps it.
type fakeSubConn struct {
	balancer.SubConn
	prober *prober
	close  func()
}

func newFakeSubConn(t *testing.T) *fakeSubConn {
	producer, close := proberBuilder{}.Build(nil)
	t.Cleanup(close)
	return &fakeSubConn{prober: producer.(*prober), close: close}
}

func (sc *fakeSubConn) GetOrBuildProducer(balancer.ProducerBuilder) (balancer.Producer, func()) {
	return sc.prober, sc.close
}

// Two addresses of an endpoint are tried at once, so both connections may be READY before pickfirst
// shuts the second one down. The first is still probed then.
func TestSecondConnectionOfAnEndpointDoesNotEndProbes(t *testing.T) {
	tr := newTrial(t, `{"probe": {"transport": "none"}}`, &fakePicker{})
	e := &endpoint{}
	first, second := newFakeSubConn(t), newFakeSubConn(t)
	e.observe(first, "10.0.0.1:80", connectivity.Ready)
	e.observe(second, "10.0.0.2:80", connectivity.Ready)
	second.close() // as gRPC does when a connection leaves READY
	e.observe(second, "10.0.0.2:80", connectivity.Shutdown)
	if !e.offer(probeJob{engine: tr.engine}) {
		t.Fatal("the first connection is READY, and no longer probed")
	}
	if got := e.targetLocked(0); got != "10.0.0.1:80" {
		t.Errorf("probes by UDP go to %q, not to the first connection", got)
	}
	first.close()
	e.observe(first, "10.0.0.1:80", connectivity.Idle)
	if e.offer(probeJob{engine: tr.engine}) {
		t.Error("no connection is READY, and a probe was taken")
	}
}
