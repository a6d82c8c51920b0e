package slackwatergrpc

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/balancer/weightedtarget"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/resolver"
)

// Name is the name of the load balancing policy in a service config, and the last part of the type
// URL of its xDS configuration.
const Name = "slackwater"

var logger = grpclog.Component(Name)

func init() { balancer.Register(builder{}) }

// builder makes a balancer for each channel, or under xDS for each locality of it.
type builder struct{}

var _ balancer.ConfigParser = builder{}

func (builder) Name() string { return Name }

func (builder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	b := &lb{
		ClientConn: cc,
		channel:    &Channel{target: opts.Target.String()},
		metrics:    newMetrics(cc.MetricsRecorder(), opts.Target.String()),
	}
	pickFirst := balancer.Get(pickfirst.Name)
	newEndpoint := func(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
		e := &endpoint{lb: b}
		e.Balancer = pickFirst.Build(&endpointConn{ClientConn: cc, endpoint: e}, opts)
		return e
	}
	b.child = endpointsharding.NewBalancer(b, opts, newEndpoint, endpointsharding.Options{})
	channels.add(b.channel)
	return b
}

// lb is the balancer. Its child keeps a connection to every endpoint; lb chooses between the READY
// ones.
//
// Locks are taken in this order: those of the children, lb.updating, lb.mu, engine.mu. No child and
// no part of gRPC is called under lb.mu or engine.mu, and no child under lb.updating.
type lb struct {
	// ClientConn is the channel. It is embedded to intercept the child's UpdateState.
	balancer.ClientConn
	child   balancer.Balancer
	channel *Channel
	metrics *metrics

	// updating is held while a state is passed on, and guards last, the latest one.
	updating sync.Mutex
	last     balancer.State

	mu sync.Mutex
	// config is what engine was made by, or one that chooses alike.
	config *config
	engine *engine
	// settled says that the first connections have been made, or have failed, or took too long.
	settled bool
	// settle is set with the first READY endpoint. When it fires, overdue becomes true.
	settle  *time.Timer
	overdue bool
	closed  bool
}

// settleMax is how long the first connections may take once one of them is READY. An address
// without an answer takes 20 s or more to fail, and one whose health check hangs never does. Tests
// replace it.
var settleMax = 5 * time.Second

func (b *lb) UpdateClientConnState(state balancer.ClientConnState) error {
	parsed, ok := state.BalancerConfig.(*config)
	switch {
	case state.BalancerConfig == nil:
		// The policy was selected by its name alone.
		parsed = defaultConfig()
	case !ok:
		return fmt.Errorf("slackwater: configuration of unexpected type %T", state.BalancerConfig)
	}
	locality := weightedtarget.LocalityFromResolverState(state.ResolverState)

	b.mu.Lock()
	replaced, err := b.useLocked(parsed)
	if err != nil && b.engine == nil {
		b.mu.Unlock()
		err = fmt.Errorf("slackwater: %w", err)
		// gRPC ignores the returned error, and calls would wait forever for a picker.
		b.ClientConn.UpdateState(balancer.State{
			ConnectivityState: connectivity.TransientFailure, Picker: base.NewErrPicker(err),
		})
		return err
	}
	if err != nil {
		logger.Errorf("new configuration not used: %v", err)
	}
	b.metrics.setLocality(locality)
	b.channel.update(locality, b.engine)
	b.mu.Unlock()

	// The child answers with UpdateState before it returns, which fills a new engine.
	err = b.child.UpdateClientConnState(balancer.ClientConnState{
		// Without the health listener, outlier detection and client-side health checking of the
		// layers above have no effect.
		ResolverState: pickfirst.EnableHealthListener(state.ResolverState),
	})
	if replaced != nil {
		// From here on, no picker uses it. Calls that it picked still end there.
		replaced.close()
	}
	return err
}

// useLocked makes an engine for a configuration, unless the current one chooses alike: a new one
// would forget what that has learned, such as which endpoints are ejected. It returns the engine
// that was replaced, which still has to be closed. On an error, the current one stays.
func (b *lb) useLocked(parsed *config) (*engine, error) {
	if b.engine != nil && b.config.choosesAlike(parsed) {
		if b.config.explain != parsed.explain {
			b.engine.keepPicks(int(parsed.explain))
		}
		b.config = parsed
		return nil, nil
	}
	next, err := newEngine(parsed, b.metrics, b.settled)
	if err != nil {
		return nil, err
	}
	b.config = parsed
	return b.replaceLocked(next), nil
}

// replaceLocked makes next the engine, and returns the one that it replaces, or nil.
func (b *lb) replaceLocked(next *engine) *engine {
	next.replaces, b.engine = b.engine, next
	return next.replaces
}

// settleLocked puts health around the policy once no endpoint is connecting for the first time, or
// if one takes too long. It returns the engine that was replaced, or nil.
//
// Health gives an endpoint that joins a small share at first, because one that starts is often
// slow. The connections of a new channel are made within milliseconds of each other, and all but
// the first would look as if they joined.
func (b *lb) settleLocked(children []endpointsharding.ChildState, ready int) *engine {
	if b.settled || b.engine == nil || ready == 0 {
		return nil
	}
	if b.settle == nil {
		b.settle = time.AfterFunc(settleMax, b.settleLate)
	}
	for _, child := range children {
		switch child.State.ConnectivityState {
		case connectivity.Idle, connectivity.Connecting:
			if !b.overdue {
				return nil
			}
		}
	}
	b.settled = true
	b.settle.Stop()
	if b.config.health == healthOff {
		return nil
	}
	next, err := newEngine(b.config, b.metrics, true)
	if err != nil {
		logger.Errorf("health is off: %v", err)
		return nil
	}
	replaced := b.replaceLocked(next)
	b.channel.update(b.channel.Locality(), next)
	return replaced
}

// settleLate is the callback of settle.
func (b *lb) settleLate() {
	b.mu.Lock()
	b.overdue = true
	b.mu.Unlock()
	b.updating.Lock()
	defer b.updating.Unlock()
	b.update(b.last)
}

// UpdateState receives the states of all endpoints from the child.
func (b *lb) UpdateState(state balancer.State) {
	b.updating.Lock()
	defer b.updating.Unlock()
	b.last = state
	b.update(state)
}

// update passes on a state. Its caller holds updating.
func (b *lb) update(state balancer.State) {
	children := endpointsharding.ChildStatesFromPicker(state.Picker)
	ready := make([]*endpointPicker, 0, len(children))
	var others []*endpoint
	for _, child := range children {
		picker, ok := child.State.Picker.(*endpointPicker)
		switch {
		case !ok:
			// It has not reported any state yet.
		case child.State.ConnectivityState == connectivity.Ready:
			ready = append(ready, picker)
		default:
			others = append(others, picker.endpoint)
		}
	}
	b.mu.Lock()
	if b.closed {
		// It was on its way while another goroutine closed b. A new engine would stay open.
		b.mu.Unlock()
		return
	}
	replaced := b.settleLocked(children, len(ready))
	engine := b.engine
	b.mu.Unlock()
	if engine != nil {
		engine.setReady(ready, others)
		b.takeOver(engine)
	}
	if replaced != nil {
		defer replaced.close()
	}
	if engine == nil || len(ready) == 0 {
		// The child's own picker waits for a connection, or fails with the reason why there is none.
		b.ClientConn.UpdateState(state)
		return
	}
	b.ClientConn.UpdateState(balancer.State{
		ConnectivityState: connectivity.Ready,
		// A new picker each time, because calls that wait for one pick again.
		Picker: &picker{engine: engine},
	})
}

// takeOver lets an engine take over from the one that it replaces. Its caller holds updating.
func (b *lb) takeOver(engine *engine) {
	b.mu.Lock()
	replaced := engine.replaces
	engine.replaces = nil
	for replaced != nil && replaced.replaces != nil {
		// It has not taken over itself, and no picker uses it.
		replaced = replaced.replaces
	}
	b.mu.Unlock()
	if replaced != nil {
		engine.takeOver(replaced)
	}
}

func (b *lb) ResolverError(err error) { b.child.ResolverError(err) }

func (b *lb) ExitIdle() { b.child.ExitIdle() }

// UpdateSubConnState is not called any more: connections have listeners.
func (b *lb) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// Close ends all probing. Calls in flight may end later.
func (b *lb) Close() {
	channels.remove(b.channel)
	// It closes the connections, and waits for their probes.
	b.child.Close()
	b.mu.Lock()
	b.closed = true
	if b.settle != nil {
		b.settle.Stop()
	}
	engine := b.engine
	b.mu.Unlock()
	if engine != nil {
		engine.close()
	}
}

// forget removes an endpoint that the resolver no longer returns. Its calls in flight go on.
func (b *lb) forget(e *endpoint) {
	b.mu.Lock()
	engine := b.engine
	b.mu.Unlock()
	if engine != nil {
		engine.remove(e)
	}
}

// probeAddressKey is the key of an endpoint's attribute.
type probeAddressKey struct{}

// WithProbeAddress returns the endpoint with the address, "host:port", where it answers probes by
// UDP or HTTP; by UDP, the host must be an IP address. A resolver uses it for endpoints whose
// probes are answered elsewhere than the service config says, for example by an agent on another
// host. A resolver that returns addresses instead of endpoints can set the same attributes as the
// address's BalancerAttributes.
func WithProbeAddress(endpoint resolver.Endpoint, address string) resolver.Endpoint {
	endpoint.Attributes = endpoint.Attributes.WithValue(probeAddressKey{}, address)
	return endpoint
}

func probeAddressOf(endpoint resolver.Endpoint) string {
	address, _ := endpoint.Attributes.Value(probeAddressKey{}).(string)
	return address
}
