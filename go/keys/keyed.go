package keys

import (
	"fmt"

	"github.com/slackwater/slackwater/go/policy"
)

// keyed is a policy whose queries with a key go to the replicas of the key.
type keyed struct {
	policy   policy.Policy
	settings Settings
	// hasRounds: it waits for probes, so the answers decide and nothing is bounded.
	hasRounds  bool
	order      order
	loads      loads
	partitions partitions
	// picks are, for each of reasons, the picks by the reason that the policy gave.
	picks  [len(reasons)]policy.ReasonCounts
	latest policy.Instant
	// query, homes and among are buffers, so that a choice does not allocate.
	query policy.Query
	homes []policy.ReplicaID
	among []policy.ReplicaID
}

// reasons are those that the choice for a key has.
var reasons = [...]policy.PickReason{
	policy.ReasonKeyHome, policy.ReasonKeySet, policy.ReasonKeySpill,
}

// Wrap puts keys around a policy with an empty fleet. Health, if there is any, belongs inside. The
// policy must not be used directly afterwards. The error is a [*policy.SettingError].
func Wrap(inner policy.Policy, settings Settings) (policy.Policy, error) {
	if err := settings.Validate(); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return &keyed{
		policy:     inner,
		settings:   settings,
		hasRounds:  policy.HasRounds(inner.Name()),
		partitions: newPartitions(&settings),
		homes:      make([]policy.ReplicaID, 0, orderedMax),
		among:      make([]policy.ReplicaID, 0, orderedMax),
	}, nil
}

func (k *keyed) tick(now policy.Instant) policy.Instant {
	k.latest = max(k.latest, now)
	return k.latest
}

// Name returns the name of the policy inside.
func (k *keyed) Name() string { return k.policy.Name() }

// Handle takes in an event and passes it on.
func (k *keyed) Handle(now policy.Instant, event policy.Event, draw policy.Draw) {
	k.note(k.tick(now), &event)
	k.policy.Handle(now, event, draw)
}

// note takes in an event before the policy does, which may forget what it is about.
func (k *keyed) note(now policy.Instant, event *policy.Event) {
	switch event.Kind {
	case policy.EventAdded:
		if event.Replica.Index() < policy.MaxReplicas && !k.policy.Fleet().Knows(event.Replica) {
			k.order.add(event.Replica)
			k.loads.add(event.Replica)
		}
	case policy.EventRemoved:
		if k.policy.Fleet().Knows(event.Replica) {
			k.order.remove(event.Replica)
			k.loads.remove(event.Replica)
		}
	case policy.EventIdentified:
		k.order.identify(event.Replica, event.Identity)
	case policy.EventReport:
		if replica, isKnown := k.policy.ProbeTarget(event.Probe); isKnown && event.Load != nil {
			k.loads.reported(now, replica, event.Load)
		}
	case policy.EventSiblingReport, policy.EventCarriedReport:
		if event.Load != nil {
			k.loads.reported(now, event.Replica, event.Load)
		}
	case policy.EventSiblingQueries:
		k.loads.siblingsSent(event.Replica, event.Count)
	}
	// Other events change which replicas may be chosen, which shows in the fleet.
}

// sent notes that a query is in flight.
func (k *keyed) sent(now policy.Instant, pick *policy.Pick, partition policy.Optional[uint16]) {
	k.loads.sent(pick.Ticket.Replica())
	k.partitions.sent(now, partition, &k.order)
	pick.Ticket.Partition = partition
}

// giveReason gives a pick the reason that it has for the key, unless the policy had no choice.
func (k *keyed) giveReason(pick *policy.Pick, reason policy.PickReason) {
	switch pick.Reason {
	case policy.ReasonPanic, policy.ReasonLastResort, policy.ReasonPinned, policy.ReasonRoom,
		policy.ReasonTrial:
		return
	}
	k.picks[reason-reasons[0]][pick.Reason]++
	pick.Reason = reason
}

// Choose sends a query with a key to the replicas of the key.
func (k *keyed) Choose(
	now policy.Instant, query *policy.Query, draw policy.Draw, explanation *policy.Explanation,
) policy.Decision {
	latest := k.tick(now)
	fleet := k.policy.Fleet()
	k.loads.sweep(latest, fleet.Known())
	key, hasKey := query.Key.Get()
	// A query that the caller has narrowed goes where the caller wants.
	if !hasKey || len(query.Among) > 0 || len(query.Homes) > 0 {
		decision := k.policy.Choose(now, query, draw, explanation)
		if decision.Kind == policy.Picked {
			k.sent(latest, &decision.Pick, policy.Optional[uint16]{})
		}
		return decision
	}
	// Before the order is looked at, because it may change which replicas may be chosen.
	sparesSome := k.sparesSome(now)
	if !k.order.isCurrent(fleet) {
		k.order.refresh(fleet, &k.loads)
	}
	set := k.homesOf(key)
	k.narrow(latest, query, key, &set, sparesSome)
	k.query = *query
	k.query.Homes, k.query.Among = k.homes, k.among
	decision := k.policy.Choose(now, &k.query, draw, explanation)
	k.query = policy.Query{}
	if explanation != nil {
		k.complete(key, &set)
		explanation.SetKey(func(choice *policy.KeyChoice) { k.explain(query, &set, choice) })
	}
	if decision.Kind == policy.Picked {
		k.giveReason(&decision.Pick, k.reason(decision.Pick.Ticket.Replica(), &set))
		k.sent(latest, &decision.Pick, set.partition)
	}
	return decision
}

// HandleHead passes the head of a response on.
func (k *keyed) HandleHead(now policy.Instant, ticket *policy.Ticket, outcome policy.Outcome) {
	k.measure(k.tick(now), ticket, outcome)
	k.policy.HandleHead(now, ticket, outcome)
}

// measure takes in the latency of a query, once: at the head of its response, or else at its end.
func (k *keyed) measure(now policy.Instant, ticket *policy.Ticket, outcome policy.Outcome) {
	if !ticket.Measured && outcome == policy.OutcomeSuccess {
		k.loads.answered(now, ticket.Replica(), now.Since(ticket.SentAt()))
	}
	ticket.Measured = true
}

// HandleDone notes the end of a query, and passes it on.
func (k *keyed) HandleDone(now policy.Instant, ticket policy.Ticket, outcome policy.Outcome) {
	latest := k.tick(now)
	k.measure(latest, &ticket, outcome)
	k.loads.done(ticket.Replica())
	k.partitions.done(latest, ticket.Partition, &k.order)
	k.policy.HandleDone(now, ticket, outcome)
}

// NextProbe returns the policy's next probe.
func (k *keyed) NextProbe(now policy.Instant, draw policy.Draw) (policy.Probe, bool) {
	return k.policy.NextProbe(now, draw)
}

// ProbeTarget returns the replica that the policy's probe was sent to.
func (k *keyed) ProbeTarget(probe policy.ProbeID) (policy.ReplicaID, bool) {
	return k.policy.ProbeTarget(probe)
}

// NextTimeout returns the policy's timeout.
func (k *keyed) NextTimeout() (policy.Instant, bool) { return k.policy.NextTimeout() }

// WantsTrial reports whether the policy wants a trial.
func (k *keyed) WantsTrial() bool { return k.policy.WantsTrial() }

// Fleet returns the policy's fleet.
func (k *keyed) Fleet() *policy.Fleet { return k.policy.Fleet() }

// Counters returns the policy's counts, with picks by the reasons of keys.
func (k *keyed) Counters() policy.Counters {
	counters := k.policy.Counters()
	for i, reason := range reasons {
		for from, count := range k.picks[i].All() {
			counters.Picks.Recount(from, reason, count)
		}
	}
	return counters
}

// Snapshot returns the policy's state, with that of keys.
func (k *keyed) Snapshot(now policy.Instant) policy.Snapshot {
	snapshot := k.policy.Snapshot(now)
	view := k.partitions.view(max(k.latest, now), &k.order)
	if !k.hasRounds {
		view.Cap = k.loads.usualCap(k.settings.BalanceFactor)
	}
	snapshot.Keys = policy.Some(view)
	return snapshot
}
