package slackwatergrpc

import (
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// readyChild is READY at once.
type readyChild struct {
	balancer.Balancer
	cc balancer.ClientConn
}

func (c *readyChild) UpdateClientConnState(balancer.ClientConnState) error {
	c.cc.UpdateState(balancer.State{
		ConnectivityState: connectivity.Ready,
		Picker:            &endpointPicker{Picker: &fakePicker{}, endpoint: &endpoint{}},
	})
	return nil
}

func (*readyChild) Close() {}

// A state of the children may be on its way while another goroutine closes the balancer. It must
// not make an engine that stays open.
func TestStateAfterCloseLeavesNoEngine(t *testing.T) {
	children := &fakeConn{}
	sharding := endpointsharding.NewBalancer(children, balancer.BuildOptions{},
		func(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
			return &readyChild{cc: cc}
		}, endpointsharding.Options{})
	defer sharding.Close()
	state := balancer.ClientConnState{ResolverState: resolver.State{
		Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: "10.0.0.1:80"}}}},
	}}
	if err := sharding.UpdateClientConnState(state); err != nil {
		t.Fatal(err)
	}

	b := builder{}.Build(&fakeConn{}, balancer.BuildOptions{}).(*lb)
	// Without endpoints it has an engine, and waits for the first connections.
	_ = b.UpdateClientConnState(balancer.ClientConnState{})
	b.Close()
	b.UpdateState(children.states[0])
	if !b.engine.closed {
		b.engine.close()
		t.Error("the engine is not closed")
	}
}
