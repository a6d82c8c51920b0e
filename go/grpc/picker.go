package slackwatergrpc

import (
	"context"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/policy"
)

// picker picks among the READY endpoints. All pickers of an engine do the same: gRPC only has to
// see a new one when the endpoints have changed.
type picker struct {
	engine *engine
}

var _ balancer.Picker = (*picker)(nil)

// Pick chooses an endpoint, and a connection by the picker of its child. It does not wait.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	call := callOf(info.Ctx)
	a, child, err := p.engine.pick(info, call)
	if err != nil {
		return balancer.PickResult{}, err
	}
	result, err := child.Pick(info)
	if err != nil {
		// The connection is being lost. gRPC picks again, or fails the call by the child's error.
		a.end(policy.OutcomeDropped)
		return balancer.PickResult{}, err
	}
	a.childDone = result.Done
	result.Done = a.done
	if call != nil {
		call.begin(a)
	}
	return result, nil
}

// pick chooses an endpoint and charges the choice.
func (e *engine) pick(info balancer.PickInfo, call *call) (*attempt, *endpointPicker, error) {
	key := e.keyOf(info.Ctx)
	e.mu.Lock()
	now := e.now()
	e.query = policy.Query{Key: key}
	if call != nil {
		e.query.Avoid = call.triedOf(e)
	}
	if len(e.query.Avoid) > 0 {
		e.query.Attempt = policy.AttemptRetry
	}
	decision := e.policy.Choose(now, &e.query, e.draw, e.records.explanation())
	if decision.Kind == policy.NoReplica && len(e.query.Avoid) > 0 {
		// The call has tried every endpoint. One that failed before is better than none.
		e.query.Avoid = nil
		decision = e.policy.Choose(now, &e.query, e.draw, e.records.explanation())
	}
	attempted := e.query.Attempt
	e.query = policy.Query{}
	switch decision.Kind {
	case policy.Picked:
	case policy.NoReplica:
		// Every READY endpoint has just left. The child reports that next, with a new picker.
		e.release(now)
		return nil, nil, balancer.ErrNoSubConnAvailable
	default:
		e.release(now)
		err := status.Errorf(codes.Internal,
			"slackwater: policy %s probes before it picks", e.config.policy)
		return nil, nil, err
	}
	pick := decision.Pick
	a := &attempt{engine: e, ctx: info.Ctx, ticket: pick.Ticket}
	m := e.memberLocked(pick.Ticket.Replica())
	if m == nil {
		// The policy and the fleet change together, so this does not happen. If it did, the charge
		// must not stay.
		e.policy.HandleDone(now, a.ticket, policy.OutcomeDropped)
		e.release(now)
		return nil, nil, balancer.ErrNoSubConnAvailable
	}
	child := m.picker
	e.records.record(pickMade{
		method: info.FullMethodName, attempt: attempted, reason: pick.Reason, endpoint: child.endpoint,
	})
	e.release(now)
	e.metrics.picked(pick.Reason)
	return a, child, nil
}

// attempt is a picked call in flight.
type attempt struct {
	engine    *engine
	ctx       context.Context
	childDone func(balancer.DoneInfo)

	// The engine's mutex guards the rest.
	ticket policy.Ticket
	ended  bool
}

// done is called by gRPC when the attempt has ended, or could not be sent.
func (a *attempt) done(info balancer.DoneInfo) {
	if a.childDone != nil {
		a.childDone(info)
	}
	if neverSent(&info) {
		a.engine.metrics.pickUnsent()
		if call := callOf(a.ctx); call != nil {
			call.takeBack(a)
		}
		a.end(policy.OutcomeDropped)
		return
	}
	report, isCarried := carriedReport(info.Trailer)
	a.endWith(outcomeOf(a.ctx, &info), &report, isCarried)
}

// end returns the ticket.
func (a *attempt) end(outcome policy.Outcome) { a.endWith(outcome, nil, false) }

// endWith returns the ticket, and hands in the report that came with the trailers, if one did.
func (a *attempt) endWith(outcome policy.Outcome, report *policy.LoadReport, isCarried bool) {
	e := a.engine
	e.mu.Lock()
	if a.ended {
		e.mu.Unlock()
		return
	}
	a.ended = true
	now := e.now()
	replica := a.ticket.Replica()
	e.policy.HandleDone(now, a.ticket, outcome)
	if isCarried {
		// After the end: the report is without the call that it came with.
		e.carriedLocked(now, replica, report)
	}
	e.release(now)
}

// head ends the latency at the head of the response. A stream may go on for long after that.
func (a *attempt) head() {
	e := a.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !a.ended {
		e.policy.HandleHead(e.now(), &a.ticket, policy.OutcomeSuccess)
	}
}
