package slackwatergrpc

import (
	"context"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FuzzOperations applies any order of picks, ends and changes of the endpoints, and compares the
// calls in flight with a simple model.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2})
	f.Add([]byte{1, 0, 0, 0, 6, 6, 22, 3, 3, 3, 0, 14, 4})
	f.Add([]byte{2, 8, 16, 24, 7, 15, 23, 31, 8, 5, 5})
	// A disconnected endpoint comes back, and a new engine takes over calls of two others.
	f.Add([]byte{0, 0, 0, 0, 46, 0, 0, 6, 9, 0, 0, 19, 0, 3, 13, 3, 3, 3, 3})
	f.Fuzz(func(t *testing.T, operations []byte) {
		if len(operations) < 2 || len(operations) > 200 {
			return
		}
		o := newOperations(t, configs[int(operations[0])%len(configs)])
		for _, operation := range operations[1:] {
			o.apply(operation%10, int(operation/10))
			o.check()
		}
		for len(o.flying) > 0 {
			o.end(0, answered)
		}
		o.check()
	})
}

// operations is a picker, and the model of its calls in flight.
type operations struct {
	*trial
	standings map[*endpoint]standing
	flying    []flight
	// retried is the context of a call that has failed, or nil.
	retried context.Context
}

// standing is what the resolver and the connection of an endpoint say.
type standing int

const (
	ready standing = iota
	disconnected
	gone
)

// flight is a call in flight.
type flight struct {
	endpoint *endpoint
	ctx      context.Context
	done     func(balancer.DoneInfo)
	// isForgotten says that its endpoint has left since, or was not READY when the engine was
	// replaced.
	isForgotten bool
}

func newOperations(t *testing.T, config string) *operations {
	return &operations{
		trial:     newTrial(t, config, &fakePicker{}, &fakePicker{}, &fakePicker{}, &fakePicker{}),
		standings: map[*endpoint]standing{},
	}
}

func (o *operations) apply(operation byte, which int) {
	failed := balancer.DoneInfo{
		Err: status.Error(codes.Unavailable, ""), BytesSent: true, BytesReceived: which%2 == 0,
	}
	switch operation {
	case 0, 1:
		o.begin(withCall(o.t.Context(), trialTarget, true))
	case 2:
		ctx := o.retried
		if ctx == nil {
			ctx = withCall(o.t.Context(), trialTarget, true)
		}
		o.begin(ctx)
	case 3:
		o.end(which, answered)
	case 4:
		o.end(which, failed)
	case 5:
		o.end(which, balancer.DoneInfo{})
	case 6:
		o.move(o.members[which%len(o.members)].endpoint, which/len(o.members))
	case 7:
		if len(o.flying) > 0 {
			call := callOf(o.flying[which%len(o.flying)].ctx)
			if a := call.current.Load(); a != nil {
				a.head()
			}
		}
		o.engine.timeout()
	case 8:
		// It fails within the client, or finds no connection.
		code := []codes.Code{codes.Unauthenticated, codes.Internal, codes.Unavailable, codes.Canceled}[which%4]
		o.end(which, balancer.DoneInfo{Err: status.Error(code, "")})
	case 9:
		o.replace(configs[which%len(configs)])
		o.forget(func(e *endpoint) bool { return o.standings[e] != ready })
		for e, standing := range o.standings {
			if standing == disconnected {
				// The new engine has not seen it READY.
				o.standings[e] = gone
			}
		}
	}
}

// move changes the standing of an endpoint.
func (o *operations) move(e *endpoint, which int) {
	switch next := standing(which % 2); {
	case o.standings[e] != ready:
		o.standings[e] = ready
	case next == ready:
		o.standings[e] = gone
	default:
		o.standings[e] = disconnected
	}
	o.forget(func(e *endpoint) bool { return o.standings[e] == gone })
	var now []*endpointPicker
	var others []*endpoint
	for _, member := range o.members {
		switch o.standings[member.endpoint] {
		case ready:
			now = append(now, member)
		case disconnected:
			others = append(others, member.endpoint)
		}
	}
	o.engine.setReady(now, others)
}

// forget makes calls at some endpoints count no longer.
func (o *operations) forget(at func(*endpoint) bool) {
	for i := range o.flying {
		if at(o.flying[i].endpoint) {
			o.flying[i].isForgotten = true
		}
	}
}

// count returns how many endpoints are in a standing.
func (o *operations) count(in standing) (count int) {
	for _, member := range o.members {
		if o.standings[member.endpoint] == in {
			count++
		}
	}
	return count
}

func (o *operations) begin(ctx context.Context) {
	result, err := o.picker.Pick(balancer.PickInfo{FullMethodName: "/test/Call", Ctx: ctx})
	if anyReady := o.count(ready) > 0; (err == nil) != anyReady {
		o.t.Fatalf("picked %v, although any is READY: %v", err, anyReady)
	}
	if err != nil {
		return
	}
	picked := callOf(ctx).current.Load().endpoint
	if o.standings[picked] != ready {
		o.t.Fatalf("picked %v, which is not READY", picked.name)
	}
	o.flying = append(o.flying, flight{endpoint: picked, ctx: ctx, done: result.Done})
}

func (o *operations) end(which int, info balancer.DoneInfo) {
	if len(o.flying) == 0 {
		return
	}
	which %= len(o.flying)
	f := o.flying[which]
	o.flying = append(o.flying[:which], o.flying[which+1:]...)
	f.done(info)
	// A call has one attempt at a time.
	o.retried = nil
	if info.Err != nil {
		o.retried = f.ctx
		for _, other := range o.flying {
			if other.ctx == f.ctx {
				o.retried = nil
			}
		}
	}
}

func (o *operations) check() {
	o.t.Helper()
	want := map[*endpoint]uint32{}
	for _, f := range o.flying {
		if !f.isForgotten {
			want[f.endpoint]++
		}
	}
	o.engine.mu.Lock()
	defer o.engine.mu.Unlock()
	views := o.engine.policy.Snapshot(o.engine.now()).Replicas
	for _, view := range views {
		at := o.engine.memberLocked(view.Replica).picker.endpoint
		if view.InFlight != want[at] {
			o.t.Fatalf("%d calls in flight at %v, want %d", view.InFlight, at.name, want[at])
		}
	}
	if known := o.count(ready) + o.count(disconnected); len(views) != known {
		o.t.Fatalf("%d endpoints, want %d", len(views), known)
	}
}
