package policy

import "time"

// PooledView is a kept report, as seen from outside.
type PooledView struct {
	// Replica is the replica that the report is from.
	Replica ReplicaID
	// RIF is the RIF that counts: as reported, but at least what this client alone had there, plus
	// one for each query that this client sent there since. For shortest_expected_delay, also minus
	// each that ended since, and plus those that other clients are assumed to have sent alike.
	RIF uint32
	// Latency is the estimated latency; 0 if unknown.
	Latency time.Duration
	// Age is the time since the report was received.
	Age time.Duration
	// UsesLeft is how many more queries it may decide: 2^32 − 1 if uses are not limited.
	UsesLeft uint32
	// Local says that it was made from this client's own counts because the replica answers no
	// probes.
	Local bool
	// Hot says that its RIF has reached the limit.
	Hot bool
}

// ReplicaView is the state of one replica in a policy.
type ReplicaView struct {
	Replica ReplicaID
	// Available says that it may be chosen.
	Available bool
	// Draining says that it reports that it takes no queries.
	Draining bool
	// InFlight is the number of queries that this client has in flight there.
	InFlight uint32
	// Unprobed says that it answers no probes and is balanced by what this client measures.
	Unprobed bool
	// Lost says that it answered probes and no longer does, while others do. Operators see it as
	// unreachable. It is not chosen as long as there are others.
	Lost bool
}

// Ranked is a replica in the order of the next choice.
type Ranked struct {
	Replica ReplicaID
	// Values are the values of the compared factors.
	Values Values
}

// Snapshot is the state of a policy at one moment.
type Snapshot struct {
	// Replicas are all known replicas.
	Replicas []ReplicaView
	// Pool is the pool, or other kept reports, oldest first. It is empty for policies that keep
	// none.
	Pool []PooledView
	// Order lists the reports of Pool that the next query's choice compares, best first and of
	// equals the older first. It is empty if reports decide nothing, for example if there are too
	// few.
	Order []Ranked
	// Comparison is how they are compared; nil if Order is empty.
	Comparison *Comparison
	// Shared are the values of the comparison's shared factors.
	Shared Values
	// Next is the first of Order, to which the next query goes if it may go to any. It is absent if
	// it has an equal, so that chance decides, or if there is no order.
	Next Optional[ReplicaID]
	// RIFLimit is the current RIF limit; absent if nothing is hot.
	RIFLimit Optional[uint32]
	// ProbeRate is the number of probes per query at present, in the mean: the policy's rate minus
	// what it leaves out while probes show an overload. It is absent if queries trigger no probes.
	ProbeRate Optional[Millionths]
	// Health is the health of every known replica; empty without health.
	Health []HealthView
	// Keys is the state of keys; absent without them.
	Keys Optional[KeyView]
}
