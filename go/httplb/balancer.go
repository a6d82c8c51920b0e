package httplb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// outboxSize is twice the number of probes that a request triggers by default. If more are due, the
// lock is taken again.
const outboxSize = 8

// balancer runs a policy with a clock, a lock, a timer and probes. The lock is held for a pick, a
// completion or a report, and never while something is sent.
type balancer struct {
	epoch  time.Time
	prober prober
	wake   chan struct{}
	closed chan struct{}
	driven sync.WaitGroup

	mu       sync.Mutex
	policy   policy.Policy
	draw     *policy.SplitMix64
	ids      policy.ReplicaIDs
	byID     map[policy.ReplicaID]*replica
	byURL    map[string]*replica
	inFlight int
	rounds   int
	// armed is when the timer wakes by itself. Later timeouts need no wake-up.
	armed    policy.Optional[policy.Instant]
	kept     keptPicks
	isClosed bool
}

func newBalancer(p policy.Policy, seed uint64, kept int) *balancer {
	return &balancer{
		epoch:  time.Now(),
		prober: noProber{},
		wake:   make(chan struct{}, 1),
		closed: make(chan struct{}),
		policy: p,
		draw:   policy.NewSplitMix64(seed),
		byID:   make(map[policy.ReplicaID]*replica),
		byURL:  make(map[string]*replica),
		kept:   newKeptPicks(kept),
	}
}

func (b *balancer) now() policy.Instant { return policy.Instant(max(time.Since(b.epoch), 0)) }

// pick returns the lease of a request. It waits only if the policy probes for the request, and at
// most until the deadline of that round or the end of ctx.
func (b *balancer) pick(ctx context.Context, query *policy.Query, hint func() []byte) (*lease, error) {
	now := b.now()
	b.mu.Lock()
	decision := b.choose(now, query)
	if decision.Kind != policy.ProbeFirst {
		l, err := b.lease(now, &decision)
		b.unlockAndSend(now)
		return l, err
	}
	r := &round{probes: decision.Round, done: make(chan struct{})}
	b.mu.Unlock()
	// The caller's function may panic, so nothing is counted yet.
	bytes := hint()
	b.mu.Lock()
	if b.rounds < roundsMax {
		b.rounds++
		b.mu.Unlock()
		err := b.await(ctx, r, bytes)
		b.mu.Lock()
		b.rounds--
		if err != nil {
			r.hasEnded = true
			b.mu.Unlock()
			return nil, err
		}
	}
	r.hasEnded = true
	ended := *query
	ended.Round = r.probes
	now = b.now()
	decision = b.choose(now, &ended)
	l, err := b.lease(now, &decision)
	b.unlockAndSend(now)
	return l, err
}

func (b *balancer) choose(now policy.Instant, query *policy.Query) policy.Decision {
	return b.policy.Choose(now, query, b.draw, b.kept.next())
}

// idOf returns the name of the replica with this URL, if there is one.
func (b *balancer) idOf(url string) (policy.ReplicaID, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.byURL[url]; r != nil {
		return r.id, true
	}
	return 0, false
}

// lease turns a decision into a lease, under the lock.
func (b *balancer) lease(now policy.Instant, decision *policy.Decision) (*lease, error) {
	pick := &decision.Pick
	if decision.Kind != policy.Picked {
		if len(b.byID) == 0 {
			return nil, ErrNoReplicas
		}
		return nil, ErrAllTried
	}
	r := b.byID[pick.Ticket.Replica()]
	if r == nil {
		// Only a policy that invents replicas gets here: policy and table change under one lock.
		b.policy.HandleDone(now, pick.Ticket, policy.OutcomeDropped)
		return nil, ErrAllTried
	}
	b.inFlight++
	b.kept.keep(now, r.given.URL, pick)
	return &lease{balancer: b, replica: r, reason: pick.Reason, ticket: pick.Ticket}, nil
}

// report takes in the answer to a probe.
func (b *balancer) report(t token, report *policy.LoadReport) {
	now := b.now()
	b.mu.Lock()
	if t.round != nil {
		if !t.round.hasEnded {
			t.round.probes.HandleReport(t.replica, report)
			t.round.signal()
		}
		b.mu.Unlock()
		return
	}
	b.policy.Handle(now, policy.Event{
		Kind: policy.EventReport, Replica: t.replica, Probe: t.probe, Load: report,
	}, b.draw)
	b.unlockAndSend(now)
}

// lost takes in that a probe gets no answer.
func (b *balancer) lost(t token) { b.ended(t, policy.EventProbeLost) }

// ended takes in the end of a probe without an answer. It triggers no further probe at once, since
// that would fail in the same way.
func (b *balancer) ended(t token, kind policy.EventKind) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.round == nil {
		b.policy.Handle(now, policy.Event{Kind: kind, Replica: t.replica, Probe: t.probe}, b.draw)
		return
	}
	if !t.round.hasEnded {
		t.round.probes.HandleLost(t.replica)
		t.round.signal()
	}
}

// outgoing is a probe on its way from under the lock to the prober.
type outgoing struct {
	token   token
	replica *replica
	timeout time.Duration
}

// unlockAndSend releases the lock, and sends the probes that are due.
func (b *balancer) unlockAndSend(now policy.Instant) {
	for {
		var outbox [outboxSize]outgoing
		count := 0
		for count < len(outbox) && !b.isClosed {
			p, isDue := b.policy.NextProbe(now, b.draw)
			if !isDue {
				break
			}
			r := b.byID[p.Replica]
			if r == nil {
				b.policy.Handle(now, policy.Event{Kind: policy.EventProbeLost, Probe: p.ID}, b.draw)
				continue
			}
			outbox[count] = outgoing{
				token: token{probe: p.ID, replica: p.Replica}, replica: r, timeout: p.Deadline.Since(now),
			}
			count++
		}
		wakes := b.wantsEarlierWake()
		b.mu.Unlock()
		if wakes {
			select {
			case b.wake <- struct{}{}:
			default: // a wake-up is under way
			}
		}
		for i := range outbox[:count] {
			out := &outbox[i]
			switch err := b.prober.send(out.replica, out.token, nil, out.timeout); {
			case err == nil:
			case isFull(err):
				b.ended(out.token, policy.EventProbeUnsent)
			default:
				b.lost(out.token)
			}
		}
		if count < len(outbox) {
			return
		}
		b.mu.Lock()
	}
}

// setReplicas replaces the set of replicas. Those that stay keep what is known about them.
func (b *balancer) setReplicas(wanted []*replica) error {
	now := b.now()
	b.mu.Lock()
	if b.isClosed {
		b.mu.Unlock()
		return ErrClosed
	}
	keep := make(map[string]bool, len(wanted))
	for _, r := range wanted {
		if known := b.byURL[r.given.URL]; known != nil && known.given == r.given {
			keep[r.given.URL] = true
		}
	}
	// In the order of their names, so that choices are repeatable.
	for _, id := range slices.Sorted(maps.Keys(b.byID)) {
		url := b.byID[id].given.URL
		if keep[url] {
			continue
		}
		b.policy.Handle(now, policy.Event{Kind: policy.EventRemoved, Replica: id}, b.draw)
		b.ids.Release(id)
		delete(b.byURL, url)
		delete(b.byID, id)
	}
	var err error
	for _, r := range wanted {
		if keep[r.given.URL] {
			continue
		}
		id, ok := b.ids.Allocate()
		if !ok {
			err = fmt.Errorf("more than %d replicas", policy.MaxReplicas)
			break
		}
		r.id = id
		b.byURL[r.given.URL] = r
		b.byID[id] = r
		b.policy.Handle(now, policy.Event{Kind: policy.EventAdded, Replica: id}, b.draw)
		b.policy.Handle(now, policy.Event{
			Kind: policy.EventIdentified, Replica: id, Identity: r.identity,
		}, b.draw)
	}
	b.unlockAndSend(now)
	return err
}

// close ends the timer and the probes, and waits for them. It returns false if it was closed
// before.
func (b *balancer) close() (first bool, err error) {
	b.mu.Lock()
	first = !b.isClosed
	if first {
		b.isClosed = true
		close(b.closed)
	}
	b.mu.Unlock()
	if first {
		err = b.prober.close()
	}
	b.driven.Wait()
	return first, err
}
