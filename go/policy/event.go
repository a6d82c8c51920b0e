package policy

// EventKind says what happened in an [Event].
type EventKind uint8

// The kinds of events.
const (
	// EventAdded: Replica joins the fleet. From now on it may be chosen and probed. If it is known
	// already, nothing changes.
	EventAdded EventKind = iota + 1
	// EventRemoved: Replica leaves the fleet. It is no longer chosen or probed, and all that was
	// known about it is forgotten.
	EventRemoved
	// EventAvailable: the caller takes Replica out of the choice (Flag false: it ejects or drains
	// it) or puts it back (Flag true). The replica stays known and probed. When no replica may be
	// chosen, all may be (panic).
	EventAvailable
	// EventReport: Load is the answer to Probe. One that comes after the probe's deadline is counted
	// and ignored.
	EventReport
	// EventSiblingReport: Load is Replica's answer to a probe of a sibling: another client on the
	// same machine, which shares its answers.
	EventSiblingReport
	// EventSiblingQueries: siblings have sent Count queries to Replica since their last such event.
	EventSiblingQueries
	// EventCarriedReport: Load came from Replica with a response, without a probe. Such reports come
	// from replicas that were chosen, so they are no fair sample of the fleet. A policy that learns
	// costs and capacities uses them; others ignore them. Load counts the query that it came with
	// only if that is not done yet.
	EventCarriedReport
	// EventProbeLost: Probe has failed before its deadline (refused, unreachable). The deadline
	// itself needs no event.
	EventProbeLost
	// EventProbeUnsent: Probe could not be sent because the sender's queue was full. It shows
	// nothing about the replica, and another probe may be sent at once.
	EventProbeUnsent
	// EventTimeout: the time of [Policy.NextTimeout] has come. Probes past their deadline count as
	// lost, and idle probes become due.
	EventTimeout
	// EventIdentified: Replica, which has joined, has the stable name Identity, by which keys find
	// their replicas: see package keys. It follows [EventAdded]. Without it the name derives from
	// the [ReplicaID], and clients agree on a key's replicas only if all replicas join in the same
	// order. Policies ignore it.
	EventIdentified
)

// Event is an input of [Policy.Handle]. Which fields are used depends on Kind. Events about
// replicas or probes of which the policy has no record are normal: the policy ignores them, and
// counts those that carry information. A report without Load is ignored, too.
type Event struct {
	Kind    EventKind
	Replica ReplicaID
	Probe   ProbeID
	// Load is read during the call, and not kept.
	Load  *LoadReport
	Count uint32
	Flag  bool
	// Identity is that of [EventIdentified].
	Identity Identity
}
