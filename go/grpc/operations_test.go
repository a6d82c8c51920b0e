package slackwatergrpc

import (
	"context"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/policy"
)

// FuzzOperations applies any order of picks, ends and changes of the endpoints, and compares the
// calls in flight with a simple model.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2})
	f.Add([]byte{1, 0, 0, 0, 6, 6, 22, 3, 3, 3, 0, 14, 4})
	f.Add([]byte{2, 8, 16, 24, 7, 15, 23, 31, 8, 5, 5})
	f.Fuzz(func(t *testing.T, operations []byte) {
		if len(operations) < 2 || len(operations) > 200 {
			return
		}
		o := newOperations(t, configs[int(operations[0])%len(configs)])
		for _, operation := range operations[1:] {
			o.apply(operation%8, int(operation/8))
			o.check()
		}
		for len(o.flying) > 0 {
			o.end(0, balancer.DoneInfo{BytesSent: true, BytesReceived: true})
		}
		o.check()
	})
}

// operations is a picker, and the model of its calls in flight.
type operations struct {
	*trial
	ready  map[string]bool
	flying []flight
	// retried is the context of a call that has failed, or nil.
	retried context.Context
}

// flight is a call in flight. It counts unless its endpoint has left since.
type flight struct {
	replica policy.ReplicaID
	ctx     context.Context
	done    func(balancer.DoneInfo)
}

func newOperations(t *testing.T, config string) *operations {
	o := &operations{
		trial: newTrial(t, config, &fakePicker{}, &fakePicker{}, &fakePicker{}, &fakePicker{}),
		ready: map[string]bool{},
	}
	for _, member := range o.members {
		o.ready[member.endpoint.name] = true
	}
	return o
}

func (o *operations) apply(operation byte, which int) {
	failed := balancer.DoneInfo{
		Err: status.Error(codes.Unavailable, ""), BytesSent: true, BytesReceived: which%2 == 0,
	}
	switch operation {
	case 0, 1:
		o.begin(withCall(o.t.Context(), true))
	case 2:
		ctx := o.retried
		if ctx == nil {
			ctx = withCall(o.t.Context(), true)
		}
		o.begin(ctx)
	case 3:
		o.end(which, balancer.DoneInfo{BytesSent: true, BytesReceived: true})
	case 4:
		o.end(which, failed)
	case 5:
		o.end(which, balancer.DoneInfo{})
	case 6:
		member := o.members[which%len(o.members)]
		o.ready[member.endpoint.name] = !o.ready[member.endpoint.name]
		var ready []*endpointPicker
		for _, member := range o.members {
			if o.ready[member.endpoint.name] {
				ready = append(ready, member)
			}
		}
		o.engine.setReady(ready)
	case 7:
		if len(o.flying) > 0 {
			call := callOf(o.flying[which%len(o.flying)].ctx)
			if a := call.current.Load(); a != nil {
				a.head()
			}
		}
		o.engine.timeout()
	}
}

func (o *operations) begin(ctx context.Context) {
	result, err := o.picker.Pick(balancer.PickInfo{FullMethodName: "/test/Call", Ctx: ctx})
	anyReady := false
	for _, ready := range o.ready {
		anyReady = anyReady || ready
	}
	if (err == nil) != anyReady {
		o.t.Fatalf("picked %v, although any is READY: %v", err, anyReady)
	}
	if err != nil {
		return
	}
	replica := callOf(ctx).current.Load().ticket.Replica()
	for endpoint, id := range o.engine.fleet {
		if id == replica && o.ready[endpoint.name] {
			o.flying = append(o.flying, flight{replica: replica, ctx: ctx, done: result.Done})
			return
		}
	}
	o.t.Fatalf("picked %v, which is not READY", replica)
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
	want := map[policy.ReplicaID]uint32{}
	for _, f := range o.flying {
		want[f.replica]++
	}
	o.engine.mu.Lock()
	defer o.engine.mu.Unlock()
	views := o.engine.policy.Snapshot(o.engine.now()).Replicas
	for _, view := range views {
		if view.InFlight != want[view.Replica] {
			o.t.Fatalf("%d calls in flight at %v, want %d", view.InFlight, view.Replica, want[view.Replica])
		}
	}
	ready := 0
	for _, is := range o.ready {
		if is {
			ready++
		}
	}
	if len(views) != ready {
		o.t.Fatalf("%d endpoints, want %d", len(views), ready)
	}
}
