package slackwatergrpc

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slackwater/slackwater/go/health"
	affinity "github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// engine drives one policy value: it serializes all calls to it, keeps its fleet and its timer, and
// sends its probes. A configuration that chooses otherwise makes a new engine. Calls end in the
// engine that picked for them, and in those that have replaced it since: see takeOver.
type engine struct {
	config    *config
	metrics   *metrics
	transport transport
	// started is the epoch of the policy's clock.
	started time.Time
	draw    policy.Draw
	// hasher hashes the keys of calls.
	hasher affinity.Hasher

	// replaces is the engine that this one replaces, until it has taken over. lb.mu guards it.
	replaces *engine

	// mu is a leaf: no other lock is taken under it, but for that of an endpoint, for display, and
	// that of next.
	mu     sync.Mutex
	policy policy.Policy
	// inner is the policy inside of health and keys. It may be policy itself.
	inner policy.Policy
	ids   policy.ReplicaIDs
	// fleet are the endpoints that have been READY and that the resolver still returns.
	fleet map[*endpoint]policy.ReplicaID
	// members has the replicas by the index of their ID.
	members []member
	// query is reused, because a query that is passed to an interface escapes to the heap.
	query policy.Query
	// report is reused likewise.
	report policy.LoadReport
	// timer fires at timerAt or earlier, if timerSet.
	timer    *time.Timer
	timerAt  policy.Instant
	timerSet bool
	closed   bool
	// next is the engine that has replaced this one.
	next *engine
	// inherited has a ticket for each call in flight that an earlier engine picked.
	inherited map[*endpoint][]policy.Ticket
	// discarded counts picks that were not used: of a replica that is not READY.
	discarded policy.ReasonCounts
	// spared counts probes that were answered by the report of a response, and not sent.
	spared uint64
	// counted are the counters that the metrics have.
	counted policy.Counters
	records recorder
}

// member is an endpoint of the fleet.
type member struct {
	id policy.ReplicaID
	// picker is the last one of a READY connection.
	picker *endpointPicker
	// identity is by the endpoint's first address, which may change.
	identity policy.Identity
	// isReady is false while the endpoint has no READY connection. It then stays in the fleet, so
	// that health keeps its record: a server that loses its connection with each call would
	// otherwise always be a new one.
	isReady bool
	latest  latestReports
}

// draws are random draws from Go's own generator, which needs no lock.
type draws struct{}

func (draws) Draw() uint64 { return rand.Uint64() }

// newDraw makes the source of draws of an engine. Tests replace it.
var newDraw = func() policy.Draw { return draws{} }

// timerMin is the shortest wait for a timeout. It keeps a clock that stands still from making the
// timer spin.
const timerMin = 100 * time.Microsecond

// newEngine makes an engine without endpoints. If guarded, health is around its policy, unless the
// configuration turns it off.
func newEngine(config *config, metrics *metrics, guarded bool) (*engine, error) {
	p, inner, err := newPolicy(config, guarded)
	if err != nil {
		return nil, err
	}
	e := &engine{
		config:    config,
		metrics:   metrics,
		started:   time.Now(),
		draw:      newDraw(),
		policy:    p,
		inner:     inner,
		fleet:     map[*endpoint]policy.ReplicaID{},
		inherited: map[*endpoint][]policy.Ticket{},
		records:   newRecorder(int(config.explain)),
	}
	if e.hasher, err = config.key.hasher(); err != nil {
		return nil, err
	}
	if e.transport, err = newTransport(e); err != nil {
		return nil, err
	}
	// The callback locks mu, so it cannot run before the timer is set.
	e.mu.Lock()
	e.timer = time.AfterFunc(time.Hour, e.timeout)
	e.mu.Unlock()
	return e, nil
}

// newPolicy makes the policy, and returns what is inside of health and keys, too. Without health
// around it, a server that fails fast has few calls in flight and gets most calls.
func newPolicy(config *config, guarded bool) (outer, inner policy.Policy, err error) {
	if inner, err = policy.New(config.policy, config.settings); err != nil {
		return nil, nil, err
	}
	outer = inner
	if guarded && config.health != healthOff {
		if outer, err = health.Guard(inner, health.StandardSettings()); err != nil {
			return nil, nil, err
		}
	}
	outer, err = config.key.wrap(outer)
	return outer, inner, err
}

// close ends probing. Calls that the engine picked may still end.
func (e *engine) close() {
	e.mu.Lock()
	e.closed = true
	e.timer.Stop()
	e.mu.Unlock()
	e.transport.close()
}

// takeOver charges the calls that are in flight at the endpoints to this engine, too, as those of
// the engine that it replaces. It is called once the endpoints are known, and before the first
// pick.
func (e *engine) takeOver(from *engine) {
	from.mu.Lock()
	e.mu.Lock()
	from.next = e
	now := e.now()
	for endpoint, id := range from.fleet {
		replica, known := e.fleet[endpoint]
		if !known {
			continue
		}
		// A retry triggers no probes.
		e.query = policy.Query{Attempt: policy.AttemptRetry, Pinned: policy.Some(replica)}
		for range from.policy.Fleet().InFlight(id) {
			decision := e.policy.Choose(now, &e.query, e.draw, nil)
			if decision.Kind == policy.Picked {
				e.inherited[endpoint] = append(e.inherited[endpoint], decision.Pick.Ticket)
			}
		}
	}
	e.query = policy.Query{}
	from.mu.Unlock()
	e.release(now)
}

// endInherited ends a call at an endpoint that an earlier engine picked, here and in the engines
// after this one. All such calls at an endpoint are alike.
func (e *engine) endInherited(endpoint *endpoint) {
	e.mu.Lock()
	tickets := e.inherited[endpoint]
	last := len(tickets) - 1
	if last < 0 {
		e.mu.Unlock()
		return
	}
	ticket := tickets[last]
	if e.inherited[endpoint] = tickets[:last]; last == 0 {
		delete(e.inherited, endpoint)
	}
	now := e.now()
	// How it went is not known here.
	e.policy.HandleDone(now, ticket, policy.OutcomeDropped)
	next := e.nextWithLocked(endpoint, ticket.Replica())
	e.release(now)
	if next != nil {
		next.endInherited(endpoint)
	}
}

// nextWithLocked returns the engine that has taken over the calls of an endpoint's replica, or nil.
func (e *engine) nextWithLocked(endpoint *endpoint, replica policy.ReplicaID) *engine {
	if e.fleet[endpoint] != replica {
		// It had left, and perhaps come back under another name.
		return nil
	}
	return e.next
}

// timeOf returns the time of an instant of the policy's clock.
func (e *engine) timeOf(at policy.Instant) time.Time { return e.started.Add(at.Since(0)) }

func (e *engine) now() policy.Instant { return policy.Instant(time.Since(e.started)) }

// setReady takes in which endpoints are READY, and which others the resolver returns.
func (e *engine) setReady(ready []*endpointPicker, others []*endpoint) {
	e.mu.Lock()
	now := e.now()
	isReady := make(map[*endpoint]bool, len(ready)+len(others))
	for _, endpoint := range others {
		isReady[endpoint] = false
	}
	for _, picker := range ready {
		isReady[picker.endpoint] = true
	}
	for endpoint, id := range e.fleet {
		switch ready, listed := isReady[endpoint]; {
		case !listed:
			e.removeLocked(now, endpoint)
		case !ready:
			e.disconnectLocked(now, id)
		}
	}
	for _, picker := range ready {
		e.addLocked(now, picker)
	}
	replicas := e.readyLocked()
	e.release(now)
	e.metrics.setReplicas(replicas)
}

func (e *engine) addLocked(now policy.Instant, picker *endpointPicker) {
	id, known := e.fleet[picker.endpoint]
	if !known {
		var ok bool
		if id, ok = e.ids.Allocate(); !ok {
			logger.Warningf("endpoint ignored: more than %d endpoints", policy.MaxReplicas)
			return
		}
		e.fleet[picker.endpoint] = id
		for len(e.members) <= id.Index() {
			e.members = append(e.members, member{})
		}
	}
	m := &e.members[id.Index()]
	identity := affinity.IdentityOf(picker.endpoint.describe(), 0)
	wasReady, isNamed := m.isReady, known && m.identity == identity
	// The child may have a new picker for a new connection.
	*m = member{id: id, picker: picker, identity: identity, isReady: true}
	switch {
	case !known:
		e.policy.Handle(now, policy.Event{Kind: policy.EventAdded, Replica: id}, e.draw)
	case !wasReady:
		e.reconnectLocked(now, id)
	}
	if !isNamed {
		e.policy.Handle(now, policy.Event{
			Kind: policy.EventIdentified, Replica: id, Identity: identity,
		}, e.draw)
	}
}

// disconnectLocked takes a member out of the choice until it is READY again.
func (e *engine) disconnectLocked(now policy.Instant, id policy.ReplicaID) {
	m := &e.members[id.Index()]
	if !m.isReady {
		return
	}
	m.isReady, m.latest = false, latestReports{}
	e.policy.Handle(now, policy.Event{Kind: policy.EventAvailable, Replica: id}, e.draw)
}

// reconnectLocked puts a member back into the choice.
func (e *engine) reconnectLocked(now policy.Instant, id policy.ReplicaID) {
	// Another process may answer now, which may not even answer probes, so the policy forgets what
	// the former one reported. Health does the same with a replica that comes back, and likewise
	// not while calls are in flight there: a server may end a connection after its last call.
	if e.policy.Fleet().InFlight(id) == 0 {
		e.inner.Handle(now, policy.Event{Kind: policy.EventRemoved, Replica: id}, e.draw)
		e.inner.Handle(now, policy.Event{Kind: policy.EventAdded, Replica: id}, e.draw)
	}
	// Health does not pass this on while the endpoint is ejected.
	e.policy.Handle(now, policy.Event{Kind: policy.EventAvailable, Replica: id, Flag: true}, e.draw)
}

// readyLocked returns how many endpoints are READY.
func (e *engine) readyLocked() (ready int) {
	for _, id := range e.fleet {
		if e.members[id.Index()].isReady {
			ready++
		}
	}
	return ready
}

// remove removes an endpoint that is gone. Its calls in flight end as they would have.
func (e *engine) remove(endpoint *endpoint) {
	e.mu.Lock()
	now := e.now()
	e.removeLocked(now, endpoint)
	replicas := e.readyLocked()
	e.release(now)
	e.metrics.setReplicas(replicas)
}

func (e *engine) removeLocked(now policy.Instant, endpoint *endpoint) {
	id, known := e.fleet[endpoint]
	if !known {
		return
	}
	delete(e.fleet, endpoint)
	e.members[id.Index()] = member{}
	e.policy.Handle(now, policy.Event{Kind: policy.EventRemoved, Replica: id}, e.draw)
	e.ids.Release(id)
}

// memberLocked returns a replica of the fleet, or nil if it has left.
func (e *engine) memberLocked(id policy.ReplicaID) *member {
	if index := id.Index(); index < len(e.members) {
		if m := &e.members[index]; m.picker != nil && m.id == id {
			return m
		}
	}
	return nil
}

// timeout is the timer's callback.
func (e *engine) timeout() {
	e.mu.Lock()
	e.timerSet = false
	if e.closed {
		e.mu.Unlock()
		return
	}
	now := e.now()
	// The timer may fire early, because it is not moved when the policy's timeout moves back.
	if at, ok := e.policy.NextTimeout(); ok && now >= at {
		e.policy.Handle(now, policy.Event{Kind: policy.EventTimeout}, e.draw)
	}
	counts := e.countLocked()
	e.release(now)
	e.metrics.count(counts)
}

// release sets the timer, unlocks mu, and sends the probes that are due.
func (e *engine) release(now policy.Instant) {
	// Few enough to stay on the stack. A policy seldom has more due at once.
	var batch [8]dueProbe
	for {
		due := e.dueLocked(now, batch[:0])
		e.armLocked(now)
		e.mu.Unlock()
		e.metrics.probesSent(len(due))
		unsent := 0
		for _, probe := range due {
			job := probeJob{engine: e, probe: probe.probe}
			if probe.endpoint == nil || !probe.endpoint.offer(job) {
				due[unsent] = probe
				unsent++
			}
		}
		if unsent == 0 && len(due) < cap(due) {
			return
		}
		e.mu.Lock()
		now = e.now()
		for _, probe := range due[:unsent] {
			kind := policy.EventProbeUnsent
			if probe.disconnected {
				// As if it was refused. Probes that are not sent would look like an overload of the
				// client.
				kind = policy.EventProbeLost
			}
			e.policy.Handle(now, policy.Event{Kind: kind, Probe: probe.probe.ID}, e.draw)
		}
	}
}

// dueProbe is a probe to send.
type dueProbe struct {
	// endpoint is where to send it, or nil if that is not possible.
	endpoint *endpoint
	// disconnected says that the endpoint is not READY.
	disconnected bool
	probe        policy.Probe
}

// dueLocked collects probes until there are none, or until the batch is full.
func (e *engine) dueLocked(now policy.Instant, due []dueProbe) []dueProbe {
	if e.closed {
		return due
	}
	for len(due) < cap(due) {
		probe, ok := e.policy.NextProbe(now, e.draw)
		if !ok {
			break
		}
		next := dueProbe{probe: probe}
		if m := e.memberLocked(probe.Replica); m != nil {
			if e.spareLocked(now, probe.ID, m) {
				continue
			}
			if next.disconnected = !m.isReady; m.isReady {
				next.endpoint = m.picker.endpoint
			}
		}
		due = append(due, next)
	}
	return due
}

// spareLocked answers a probe by what its endpoint has just reported with a response, if it has.
func (e *engine) spareLocked(now policy.Instant, probe policy.ProbeID, m *member) bool {
	own := e.policy.Fleet().InFlight(m.id)
	report, ok := m.latest.current(now, own)
	if !ok {
		return false
	}
	e.report = report
	e.policy.Handle(now, policy.Event{Kind: policy.EventReport, Probe: probe, Load: &e.report}, e.draw)
	e.spared++
	return true
}

// carriedLocked passes on a report that came with a response of an endpoint.
func (e *engine) carriedLocked(now policy.Instant, replica policy.ReplicaID, report *policy.LoadReport) {
	// The policy takes no notice of a report without a capacity.
	if m := e.memberLocked(replica); m != nil && report.CapacityMilliRIF.Known && e.config.readsCarried() {
		m.latest.noteCarried(now, report, e.policy.Fleet().InFlight(replica))
	}
	e.report = *report
	event := policy.Event{Kind: policy.EventCarriedReport, Replica: replica, Load: &e.report}
	e.policy.Handle(now, event, e.draw)
}

// countersLocked returns the policy's counters, without probes that were spared, picks that were
// discarded and calls that were taken over.
func (e *engine) countersLocked() policy.Counters {
	counters := e.policy.Counters()
	counters.ProbesSent -= e.spared
	counters.ProbesAnswered -= e.spared
	for reason, picks := range e.discarded {
		counters.Picks[reason] -= picks
	}
	// Nothing else is pinned.
	counters.Picks[policy.ReasonPinned] = 0
	return counters
}

// armLocked sets the timer for the policy's next timeout. It only ever moves it forward: almost
// every event moves the timeout back a little, and setting a timer is not free.
func (e *engine) armLocked(now policy.Instant) {
	at, ok := e.policy.NextTimeout()
	if !ok || e.closed || (e.timerSet && e.timerAt <= at) {
		return
	}
	e.timerAt, e.timerSet = at, true
	e.timer.Reset(max(at.Since(now), timerMin))
}

// answered hands in the answer to a probe. The report is not kept.
func (e *engine) answered(probe policy.ProbeID, report *policy.LoadReport, after time.Duration) {
	e.metrics.probeAnswered(after)
	e.mu.Lock()
	if replica, ok := e.policy.ProbeTarget(probe); ok {
		if m := e.memberLocked(replica); m != nil {
			m.latest.noteAnswer(e.now(), report)
		}
	}
	e.handleLocked(policy.Event{Kind: policy.EventReport, Probe: probe, Load: report})
}

// failed notes that a probe was not sent, or could not be answered.
func (e *engine) failed(job probeJob, err error) {
	kind := policy.EventProbeLost
	if errors.Is(err, probe.ErrFull) {
		// Too many probes are outstanding, which shows nothing about the endpoint.
		kind = policy.EventProbeUnsent
	}
	if logger.V(2) {
		logger.Infof("probe of %s failed: %v", job.target, err)
	}
	e.handle(policy.Event{Kind: kind, Probe: job.probe.ID})
}

// handle passes on what has become of a probe.
func (e *engine) handle(event policy.Event) {
	e.mu.Lock()
	e.handleLocked(event)
}

// handleLocked unlocks mu.
func (e *engine) handleLocked(event policy.Event) {
	now := e.now()
	e.policy.Handle(now, event, e.draw)
	counts := e.countLocked()
	e.release(now)
	e.metrics.count(counts)
}

// countLocked returns what the policy has counted since the last call.
func (e *engine) countLocked() probeCounts {
	all := e.countersLocked()
	counts := probeCounts{
		answered: all.ProbesAnswered - e.counted.ProbesAnswered,
		lost:     all.ProbesLost - e.counted.ProbesLost,
		unsent:   all.ProbesUnsent - e.counted.ProbesUnsent,
	}
	e.counted = all
	return counts
}
