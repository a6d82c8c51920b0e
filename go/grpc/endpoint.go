package slackwatergrpc

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// endpoint is a server, and the child balancer that keeps the connection to it.
type endpoint struct {
	// Balancer is pickfirst.
	balancer.Balancer
	lb *lb

	mu sync.Mutex
	// name is the endpoint's first address.
	name string
	// probeAddress is where it answers probes by UDP or HTTP, if the resolver says so.
	probeAddress string
	// connected are the READY connections, in the order in which they became so. More than one is
	// there only until pickfirst, which keeps the first, has shut the others down.
	connected []connection
}

// connection is a READY connection.
type connection struct {
	subConn balancer.SubConn
	address string
	// prober sends probes, and release gives it up.
	prober  *prober
	release func()
}

func (e *endpoint) UpdateClientConnState(state balancer.ClientConnState) error {
	if endpoints := state.ResolverState.Endpoints; len(endpoints) > 0 {
		e.mu.Lock()
		e.name = nameOf(endpoints[0])
		e.probeAddress = probeAddressOf(endpoints[0])
		e.mu.Unlock()
	}
	return e.Balancer.UpdateClientConnState(state)
}

// Close is called when the resolver no longer returns the endpoint.
func (e *endpoint) Close() {
	e.lb.forget(e)
	e.Balancer.Close()
}

// observe follows the states of the endpoint's connections.
func (e *endpoint) observe(sc balancer.SubConn, address string, state connectivity.State) {
	var release func()
	e.mu.Lock()
	if i := slices.IndexFunc(e.connected, func(c connection) bool { return c.subConn == sc }); i >= 0 {
		release = e.connected[i].release
		e.connected = slices.Delete(e.connected, i, i+1)
	}
	e.mu.Unlock()
	if release != nil {
		// Not under a lock: it waits for the prober, which reports to the engine.
		release()
	}
	if state != connectivity.Ready {
		return
	}
	producer, release := sc.GetOrBuildProducer(proberBuilder{})
	prober, _ := producer.(*prober)
	e.mu.Lock()
	e.connected = append(e.connected, connection{sc, address, prober, release})
	e.mu.Unlock()
}

// offer passes a probe to the connection's prober. It returns false if there is none, or if it is
// busy.
func (e *endpoint) offer(job probeJob) bool {
	e.mu.Lock()
	var prober *prober
	if len(e.connected) > 0 {
		prober = e.connected[0].prober
		job.target = e.targetLocked(job.engine.config.probe.port)
	}
	e.mu.Unlock()
	return prober != nil && prober.offer(job)
}

// targetLocked returns the address for probes by UDP or HTTP. Port 0 is the endpoint's own.
func (e *endpoint) targetLocked(port uint16) string {
	address := ""
	if len(e.connected) > 0 {
		address = e.connected[0].address
	}
	if e.probeAddress != "" || port == 0 {
		return cmp.Or(e.probeAddress, address)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// describe returns the endpoint's first address.
func (e *endpoint) describe() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.name
}

func nameOf(endpoint resolver.Endpoint) string {
	if len(endpoint.Addresses) == 0 {
		return ""
	}
	return endpoint.Addresses[0].Addr
}

// endpointConn is the channel as an endpoint's child sees it.
type endpointConn struct {
	balancer.ClientConn
	endpoint *endpoint
}

// NewSubConn adds a listener to a new connection. The child makes one for each address.
func (c *endpointConn) NewSubConn(
	addresses []resolver.Address, opts balancer.NewSubConnOptions,
) (balancer.SubConn, error) {
	var sc balancer.SubConn
	address := ""
	if len(addresses) > 0 {
		address = addresses[0].Addr
	}
	listener := opts.StateListener
	opts.StateListener = func(state balancer.SubConnState) {
		// First, so that the prober is there when the child reports that it is READY.
		c.endpoint.observe(sc, address, state.ConnectivityState)
		listener(state)
	}
	// It is not called before Connect, so it sees the value that is set here.
	//lint:ignore SA1019 there is no other way to intercept new connections yet
	sc, err := c.ClientConn.NewSubConn(addresses, opts)
	return sc, err
}

// UpdateState tags the child's picker with its endpoint.
func (c *endpointConn) UpdateState(state balancer.State) {
	state.Picker = &endpointPicker{Picker: state.Picker, endpoint: c.endpoint}
	c.ClientConn.UpdateState(state)
}

// endpointPicker is the picker of one endpoint.
type endpointPicker struct {
	balancer.Picker
	endpoint *endpoint
}
