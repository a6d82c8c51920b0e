package health_test

import (
	"container/heap"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/policy"
)

// manner is how a replica behaves. By default it answers well after 10 ms.
type manner struct {
	// fails is the percentage of queries that fail, with the outcome bad after failsAfter.
	fails      uint32
	bad        policy.Outcome
	failsAfter time.Duration
	takes      time.Duration
	// headAfter, if it is not 0, is when good heads come before the ends.
	headAfter time.Duration
	isStopped bool
}

func good() manner {
	return manner{bad: policy.OutcomeFailed, failsAfter: time.Millisecond, takes: 10 * time.Millisecond}
}

func failing(fails uint32) manner {
	m := good()
	m.fails = fails
	return m
}

func taking(span time.Duration) manner {
	m := good()
	m.takes = span
	return m
}

// shown is how some queries went.
type shown struct {
	queries, failed, trials, shadows int
	sent                             []int
}

// share returns the percentage of queries at the replica in this place.
func (s *shown) share(place int) int { return s.sent[place] * 100 / s.queries }

// client is a client with a small fleet. Its clock stands while it works.
type client struct {
	t        *testing.T
	policy   policy.Policy
	ids      policy.ReplicaIDs
	replicas []policy.ReplicaID
	manners  []manner
	now      policy.Instant
	draw     *policy.SplitMix64
	luck     *policy.SplitMix64
	events   events
	planned  int
	stuck    []policy.Ticket
	gap      time.Duration
	// copied says that each query may be copied.
	copied bool
	// isSticky says that every query is pinned, to one replica after the other.
	isSticky bool
}

// flight is a query in flight.
type flight struct {
	ticket  policy.Ticket
	outcome policy.Outcome
}

// event is the head or the end of a query.
type event struct {
	at policy.Instant
	// number tells events at one time apart.
	number int
	isHead bool
	flight *flight
}

// events are what is to come, in order of time.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	if e[i].at != e[j].at {
		return e[i].at < e[j].at
	}
	return e[i].number < e[j].number
}
func (e *events) Push(next any) { *e = append(*e, next.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	next := (*e)[last]
	*e = (*e)[:last]
	return next
}

func newClient(t *testing.T, name string, replicas int, settings health.Settings) *client {
	t.Helper()
	inner, err := policy.New(name, policy.DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	p, err := health.Guard(inner, settings)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{
		t: t, policy: p, now: policy.Instant(time.Second), gap: 2 * time.Millisecond,
		draw: policy.NewSplitMix64(5), luck: policy.NewSplitMix64(6),
	}
	for range replicas {
		c.join()
	}
	return c
}

func (c *client) handle(event policy.Event) { c.policy.Handle(c.now, event, c.draw) }

func (c *client) offer(place int, flag bool) {
	c.handle(policy.Event{Kind: policy.EventAvailable, Replica: c.replicas[place], Flag: flag})
}

// hear delivers a report with a response of the replica in this place.
func (c *client) hear(place int, report policy.LoadReport) {
	c.handle(policy.Event{Kind: policy.EventCarriedReport, Replica: c.replicas[place], Load: &report})
}

func (c *client) join() int {
	replica, _ := c.ids.Allocate()
	c.handle(policy.Event{Kind: policy.EventAdded, Replica: replica})
	c.replicas = append(c.replicas, replica)
	c.manners = append(c.manners, good())
	return len(c.replicas) - 1
}

// run sends queries at even intervals for a span. Those that end by then have ended.
func (c *client) run(span time.Duration) shown {
	s := shown{sent: make([]int, len(c.replicas))}
	for end := c.now.Add(span); c.now < end; c.now = c.now.Add(c.gap) {
		for len(c.events) > 0 && c.events[0].at <= c.now {
			c.end(heap.Pop(&c.events).(event))
		}
		c.probe()
		c.query(&s)
	}
	return s
}

func (c *client) end(e event) {
	if e.isHead {
		c.policy.HandleHead(e.at, &e.flight.ticket, policy.OutcomeSuccess)
	} else {
		c.policy.HandleDone(e.at, e.flight.ticket, e.flight.outcome)
	}
}

func (c *client) report(place int) policy.LoadReport {
	return policy.LoadReport{RIF: 1, Latency: c.manners[place].takes}
}

// probe does what is due, and answers the probes.
func (c *client) probe() {
	if timeout, isSet := c.policy.NextTimeout(); isSet && timeout <= c.now {
		c.handle(policy.Event{Kind: policy.EventTimeout})
	}
	for {
		probe, isDue := c.policy.NextProbe(c.now, c.draw)
		if !isDue {
			return
		}
		if place := probe.Replica.Index(); !c.manners[place].isStopped {
			report := c.report(place)
			c.handle(policy.Event{Kind: policy.EventReport, Probe: probe.ID, Load: &report})
		}
	}
}

func (c *client) query(s *shown) {
	var query policy.Query
	if c.isSticky {
		query.Pinned = policy.Some(c.replicas[s.queries%len(c.replicas)])
	}
	decision := c.policy.Choose(c.now, &query, c.draw, nil)
	if decision.Kind == policy.ProbeFirst {
		query.Round = decision.Round
		for replica := range query.Round.Targets() {
			if !c.manners[replica.Index()].isStopped {
				report := c.report(replica.Index())
				query.Round.HandleReport(replica, &report)
			}
		}
		decision = c.policy.Choose(c.now, &query, c.draw, nil)
	}
	if decision.Kind != policy.Picked {
		c.t.Fatalf("decision %d", decision.Kind)
	}
	s.queries++
	s.sent[decision.Pick.Ticket.Replica().Index()]++
	if decision.Pick.Reason == policy.ReasonTrial {
		s.trials++
	}
	if c.send(decision.Pick.Ticket) {
		s.failed++
	}
	if c.copied && c.policy.WantsTrial() {
		query := policy.Query{Attempt: policy.AttemptTrial}
		decision := c.policy.Choose(c.now, &query, c.draw, nil)
		if decision.Kind != policy.Picked || decision.Pick.Reason != policy.ReasonTrial {
			c.t.Fatalf("a trial is wanted and not sent: %+v", decision)
		}
		s.shadows++
		c.send(decision.Pick.Ticket)
	}
}

// send sends a query, and reports whether it fails.
func (c *client) send(ticket policy.Ticket) bool {
	m := c.manners[ticket.Replica().Index()]
	if m.isStopped {
		c.stuck = append(c.stuck, ticket)
		return false
	}
	fails := policy.Below(c.luck, 100) < m.fails
	span, sent := m.takes, &flight{ticket, policy.OutcomeSuccess}
	if fails {
		span, sent.outcome = m.failsAfter, m.bad
	}
	if m.headAfter > 0 && m.headAfter < span {
		c.plan(m.headAfter, true, sent)
	}
	c.plan(span, false, sent)
	return fails
}

func (c *client) plan(span time.Duration, isHead bool, sent *flight) {
	c.planned++
	heap.Push(&c.events, event{c.now.Add(span), c.planned, isHead, sent})
}

// resume lets the replica in this place go on: all queries that are stuck end well.
func (c *client) resume(place int) {
	c.manners[place].isStopped = false
	for _, ticket := range c.stuck {
		c.policy.HandleDone(c.now, ticket, policy.OutcomeSuccess)
	}
	c.stuck = nil
}

func (c *client) view(place int) policy.HealthView {
	for _, view := range c.policy.Snapshot(c.now).Health {
		if view.Replica == c.replicas[place] {
			return view
		}
	}
	c.t.Fatalf("replica %d has no health", place)
	return policy.HealthView{}
}

func (c *client) counters() policy.HealthCounters { return c.policy.Counters().Health }

func (c *client) expect(place int, state policy.HealthState) {
	c.t.Helper()
	if view := c.view(place); view.State != state {
		c.t.Errorf("replica %d is %v, not %v: %+v", place, view.State, state, view)
	}
}

// expectBetween checks a number against a range that includes its ends.
func (c *client) expectBetween(what string, number, low, high int) {
	c.t.Helper()
	if number < low || number > high {
		c.t.Errorf("%s: %d, not from %d to %d", what, number, low, high)
	}
}
