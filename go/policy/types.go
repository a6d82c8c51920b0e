package policy

import "time"

// Instant is a point on the caller's clock, in nanoseconds since the caller's epoch. Arithmetic on
// it saturates, so a clock that steps back is harmless.
type Instant uint64

// ReplicaID names a replica for as long as it is known: the slot in the lower half, the generation
// in the upper half. [ReplicaIDs] allocates names.
type ReplicaID uint64

// Draw is a source of random 64-bit draws, uniform over all values.
type Draw interface {
	Draw() uint64
}

// ProbeID names an asynchronous probe: the policy's slot in the lower half, the serial number in
// the upper half.
type ProbeID uint64

// Probe is a probe to send.
type Probe struct {
	// ID is returned with the answer.
	ID ProbeID
	// Replica is the replica to probe.
	Replica ReplicaID
	// Deadline is the time from which an answer is useless.
	Deadline Instant
}

// Optional is a value that may be absent. The zero value is absent.
type Optional[T any] struct {
	Value T
	Known bool
}

// Some returns a value that is present.
func Some[T any](value T) Optional[T] { return Optional[T]{Value: value, Known: true} }

// LoadReport is a replica's report of its own load: the answer to a probe.
type LoadReport struct {
	// RIF is the number of requests in flight at this instant.
	RIF uint32
	// Latency is the estimated latency of the next query; 0 is unknown.
	Latency time.Duration
	// LoadScale is the factor by which the replica scales its load for this one query, in 1/1024.
	// The zero value is the true load, 1024. Only synchronous probing uses it.
	LoadScale uint16
	// Draining says that the replica takes no new queries.
	Draining bool
	// Incarnation changes whenever the replica restarts; it is only compared for equality.
	Incarnation Optional[uint64]
	// ErrorMillionths is the share of recent queries that failed, in millionths.
	ErrorMillionths Optional[uint32]
	// CPUMillionths is the CPU in use, in millionths of what the replica is allocated.
	CPUMillionths Optional[uint32]
	// QueryRateMillis is the rate of finished queries, in thousandths of a query per second.
	QueryRateMillis Optional[uint32]
	// CapacityMilliRIF is the capacity, in thousandths of a request in flight: 1 or more.
	CapacityMilliRIF Optional[uint32]
	// Cost is the CPU time per query; absent if unknown.
	Cost Optional[time.Duration]
}

// EventKind says what happened in an [Event].
type EventKind uint8

// The kinds of events, as in the Rust crate's Event.
const (
	Added EventKind = iota + 1
	Removed
	Available   // Flag says whether the replica may be chosen
	Report      // Probe and Load
	SiblingReport
	SiblingQueries // Count
	CarriedReport
	ProbeLost
	ProbeUnsent
	Timeout
)

// Event is an input of [Policy.Handle]. Which fields are used depends on Kind.
type Event struct {
	Kind    EventKind
	Replica ReplicaID
	Probe   ProbeID
	Load    *LoadReport // not kept
	Count   uint32
	Flag    bool
}

// Attempt is the kind of an attempt of a query. Only first attempts trigger probes and removals.
type Attempt uint8

// The kinds of attempts.
const (
	First Attempt = iota
	Retry
	Hedge
	Trial
)

// Query is a query that needs a replica. The zero value is a first attempt that may go anywhere.
type Query struct {
	Attempt Attempt
	// Avoid lists replicas that the query has tried.
	Avoid []ReplicaID
	// Pinned is the replica that it goes to if that is available and not in Avoid.
	Pinned Optional[ReplicaID]
	// HasRoom says that it is pinned because it has waited for a permit and the replica has one.
	HasRoom bool
	// Round is the round that a decision to probe started for it, which now ends.
	Round *ProbeRound
}

// DecisionKind is the kind of a [Decision].
type DecisionKind uint8

// The kinds of decisions.
const (
	// NoReplica: no replica is known, or the query has tried all of them.
	NoReplica DecisionKind = iota
	// Picked: Pick says where the query goes.
	Picked
	// ProbeFirst: probe the replicas of Round, then choose again with it.
	ProbeFirst
)

// Decision is a policy's answer to a query.
type Decision struct {
	Kind  DecisionKind
	Pick  Pick
	Round *ProbeRound
}

// Pick is a choice that has been made and charged.
type Pick struct {
	// Ticket must be returned to the policy when the query ends, exactly once.
	Ticket Ticket
	// Reason is the rule that decided.
	Reason PickReason
	// RIFLimit is the RIF from which reports were hot.
	RIFLimit Optional[uint32]
	// Candidates is the number of reports to choose from.
	Candidates uint16
	// Chosen is the report that was chosen, before this query was charged to it.
	Chosen Optional[PooledView]
	// RunnerUp is the second best.
	RunnerUp Optional[ReplicaID]
	// Probing is the time spent probing for this query: 0 unless the policy probes synchronously.
	Probing time.Duration
}
