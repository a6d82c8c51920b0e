package policy

// Policy is a way to choose replicas.
//
// A choice never waits, never does I/O and never allocates. The time should not step back. If it
// does, the policy keeps the latest time that it has seen.
type Policy interface {
	// Name returns the name that selects the policy, as in [New].
	Name() string

	// Handle handles an event. Only [Report], [SiblingReport], [CarriedReport] and [Timeout] need
	// draws; with other events, draw may be nil.
	Handle(now Instant, event Event, draw Draw)

	// Choose chooses a replica for a query, and charges the choice in the same step. A pinned query
	// goes to its replica if that is available. A query whose probing round ends is decided by the
	// answers. If explanation is not nil, it is overwritten with what the choice was made from;
	// it does not affect the choice.
	Choose(now Instant, query *Query, draw Draw, explanation *Explanation) Decision

	// HandleHead handles the head of a query's response: the latency ends now, while the query
	// stays in flight to its last byte. Only the first call for a ticket counts. Without one,
	// latency ends with the query.
	HandleHead(now Instant, ticket *Ticket, outcome Outcome)

	// HandleDone handles the end of a query, with any outcome. Each ticket is returned exactly once.
	HandleDone(now Instant, ticket Ticket, outcome Outcome)

	// NextProbe returns the next probe to send, if one is due. Call it after each event until it
	// returns false. Send each probe, and pass the answer back as a [Report].
	NextProbe(now Instant, draw Draw) (Probe, bool)

	// ProbeTarget returns the replica that a probe was sent to, unless the probe has ended.
	ProbeTarget(probe ProbeID) (ReplicaID, bool)

	// NextTimeout returns when the policy next needs a [Timeout], if at all.
	NextTimeout() (Instant, bool)

	// WantsTrial reports whether a query with attempt [Trial] would find a replica now.
	WantsTrial() bool

	// Fleet returns the known replicas, and which of them are available. The caller does not change it.
	Fleet() *Fleet

	// Counters returns counts since the start.
	Counters() Counters

	// Snapshot returns the state of the policy, for display. It allocates.
	Snapshot(now Instant) Snapshot
}
