package slackwatergrpc

import (
	"context"
	"slices"

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
	if call != nil && call.target != p.engine.metrics.target {
		call = nil
	}
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

// errNoHedge ends a hedge that is not sent.
var errNoHedge = status.Error(codes.Unavailable, "slackwater: no other endpoint for a hedge")

// pick chooses an endpoint and charges the choice.
func (e *engine) pick(info balancer.PickInfo, call *call) (*attempt, *endpointPicker, error) {
	key := e.keyOf(info.Ctx)
	e.mu.Lock()
	if next := e.next; next != nil {
		// This picker is about to be replaced, and next has taken over.
		e.mu.Unlock()
		return next.pick(info, call)
	}
	now := e.now()
	e.query = policy.Query{Key: key}
	if call != nil {
		e.query.Avoid = call.tried.of(e)
	}
	isHedge := call != nil && call.isHedge
	switch {
	case isHedge:
		e.query.Attempt = policy.AttemptHedge
	case len(e.query.Avoid) > 0:
		e.query.Attempt = policy.AttemptRetry
	}
	attempted := e.query.Attempt
	decision := e.chooseLocked(now)
	e.query = policy.Query{}
	switch decision.Kind {
	case policy.Picked:
	case policy.NoReplica:
		if isHedge {
			e.release(now)
			return nil, nil, errNoHedge
		}
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
	m := e.memberLocked(pick.Ticket.Replica())
	if m == nil {
		// The policy and the fleet change together, so this does not happen. If it did, the charge
		// must not stay.
		e.policy.HandleDone(now, pick.Ticket, policy.OutcomeDropped)
		e.release(now)
		return nil, nil, balancer.ErrNoSubConnAvailable
	}
	child := m.picker
	a := &attempt{engine: e, endpoint: child.endpoint, ctx: info.Ctx, ticket: pick.Ticket}
	e.records.record(pickMade{
		method: info.FullMethodName, attempt: attempted, reason: pick.Reason, endpoint: child.endpoint,
	})
	e.release(now)
	e.metrics.picked(pick.Reason)
	return a, child, nil
}

// chooseLocked chooses a replica for e.query. It chooses again if there is none that the call has
// not tried, since one that failed before is better than none, and if the replica is not READY: the
// policy falls back to such a replica where it has no better one, and the call would wait there.
func (e *engine) chooseLocked(now policy.Instant) policy.Decision {
	explanation := e.records.explanation()
	tried := e.query.Avoid
	decision := e.policy.Choose(now, &e.query, e.draw, explanation)
	isHedge := e.query.Attempt == policy.AttemptHedge
	if decision.Kind == policy.NoReplica && len(tried) > 0 && !isHedge {
		e.query.Avoid, tried = nil, nil
		decision = e.policy.Choose(now, &e.query, e.draw, explanation)
	}
	if decision.Kind == policy.Picked && !e.isReadyLocked(decision.Pick.Ticket.Replica()) {
		e.policy.HandleDone(now, decision.Pick.Ticket, policy.OutcomeDropped)
		e.discarded[decision.Pick.Reason]++
		if !isHedge {
			// Its probes have been triggered.
			e.query.Attempt = policy.AttemptRetry
		}
		disconnected := e.disconnectedLocked()
		e.query.Avoid = slices.Concat(tried, disconnected)
		decision = e.policy.Choose(now, &e.query, e.draw, explanation)
		if decision.Kind == policy.NoReplica && len(tried) > 0 && !isHedge {
			e.query.Avoid = disconnected
			decision = e.policy.Choose(now, &e.query, e.draw, explanation)
		}
	}
	if explanation != nil {
		explanation.SayOfOthers(outDisconnected)
	}
	return decision
}

// isReadyLocked reports whether a replica may get calls, as far as the fleet knows it.
func (e *engine) isReadyLocked(id policy.ReplicaID) bool {
	m := e.memberLocked(id)
	return m == nil || m.isReady
}

// disconnectedLocked returns the replicas that are not READY.
func (e *engine) disconnectedLocked() []policy.ReplicaID {
	var disconnected []policy.ReplicaID
	for _, id := range e.fleet {
		if !e.members[id.Index()].isReady {
			disconnected = append(disconnected, id)
		}
	}
	return disconnected
}

// attempt is a picked call in flight.
type attempt struct {
	engine    *engine
	endpoint  *endpoint
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
	next := e.nextWithLocked(a.endpoint, replica)
	e.release(now)
	if next != nil {
		next.endInherited(a.endpoint)
	}
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
