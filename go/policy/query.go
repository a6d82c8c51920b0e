package policy

import (
	"slices"
	"time"
)

// Attempt is the kind of an attempt of a query. Only first attempts trigger probes and removals.
type Attempt uint8

// The kinds of attempts.
const (
	// AttemptFirst is the first attempt.
	AttemptFirst Attempt = iota
	// AttemptRetry is another attempt after a failure.
	AttemptRetry
	// AttemptHedge is another attempt while the first is in flight. It goes only to an available
	// replica.
	AttemptHedge
	// AttemptTrial is a copy of a query whose answer no client waits for, to test a replica that
	// health has taken out of the choice. Without health there is no replica for it.
	AttemptTrial
)

// Query is a query that needs a replica. The zero value is a first attempt that may go anywhere.
type Query struct {
	Attempt Attempt
	// Avoid lists replicas that the query has tried and that are not chosen again.
	Avoid []ReplicaID
	// Pinned is the replica that it goes to if that is available and not in Avoid: by a session's
	// cookie or the hash of a key. Otherwise the policy chooses as usual.
	Pinned Optional[ReplicaID]
	// HasRoom says that it is pinned because it has waited for a permit and the replica has one.
	HasRoom bool
	// Key is what the query is about. Only a policy with keys around it uses it: see package keys.
	Key Optional[KeyHash]
	// Among lists the replicas to choose from, at most [AmongMax]; more are ignored. If none of them
	// may be chosen, or there are none, all may.
	Among []ReplicaID
	// Homes lists the replicas of Among or besides it that the query prefers, at most [AmongMax]:
	// the policy chooses one of them while one may be chosen. A policy with rounds probes them, and
	// random others of Among.
	Homes []ReplicaID
	// Round is the round that a decision to probe started for it, which now ends with the answers
	// that it has. Policies without rounds choose as usual.
	Round *ProbeRound
}

// AmongMax is the most replicas of [Query.Among] and of [Query.Homes].
const AmongMax = 16

// avoids reports whether the query has tried this replica, or spares it.
func (q *Query) avoids(replica ReplicaID) bool { return slices.Contains(q.Avoid, replica) }

// Allows reports whether the query may go to this replica: it does not avoid it, and the replica is
// one of those to choose from.
func (q *Query) Allows(replica ReplicaID) bool {
	return !q.avoids(replica) && (len(q.Among) == 0 || slices.Contains(q.Among, replica))
}

// allowsAll reports whether the query may go to any replica.
func (q *Query) allowsAll() bool { return len(q.Avoid) == 0 && len(q.Among) == 0 }

// isNarrow reports whether the query may go to some replicas only, or prefers some.
func (q *Query) isNarrow() bool { return len(q.Among) > 0 || len(q.Homes) > 0 }

// mayLeaveChoice reports whether an unavailable replica is better than none. It is not for a second
// copy, since the first may still be answered.
func (q *Query) mayLeaveChoice() bool { return q.Attempt != AttemptHedge }

// sparesSome reports whether it avoids replicas although it has tried none: because of their share
// of queries.
func (q *Query) sparesSome() bool { return q.Attempt == AttemptFirst && len(q.Avoid) > 0 }

// pinReason returns why it goes to its pinned replica.
func (q *Query) pinReason() PickReason {
	if q.HasRoom {
		return ReasonRoom
	}
	return ReasonPinned
}

// DecisionKind is the kind of a [Decision].
type DecisionKind uint8

// The kinds of decisions.
const (
	// NoReplica: no replica is known, or the query has tried all of them. For a second copy: it has
	// tried all available ones. For a trial: none is due.
	NoReplica DecisionKind = iota
	// Picked: Pick says where the query goes.
	Picked
	// ProbeFirst: probe the replicas of Round, then choose again with it.
	ProbeFirst
)

// Decision is a policy's answer to a query.
type Decision struct {
	Kind DecisionKind
	Pick Pick
	// Round is nil unless Kind is [ProbeFirst].
	Round *ProbeRound
}

// Pick is a choice that has been made and charged.
type Pick struct {
	// Ticket must be returned to the policy when the query ends, exactly once.
	Ticket Ticket
	// Reason is the rule that decided.
	Reason PickReason
	// RIFLimit is the RIF from which reports were hot. It is absent if nothing was hot.
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
