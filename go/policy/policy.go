package policy

import (
	"fmt"
	"strings"
)

// Policy is a way to choose replicas.
//
// A choice never waits and never does I/O. It does not allocate, except for the round of a decision
// to probe first. The time should not step back. If it does, the policy keeps the latest time that
// it has seen.
type Policy interface {
	// Name returns the name that selects the policy, as in [New].
	Name() string

	// Handle handles an event. Only [EventReport], [EventSiblingReport], [EventCarriedReport] and
	// [EventTimeout] need draws; with other events, draw may be nil.
	Handle(now Instant, event Event, draw Draw)

	// Choose chooses a replica for a query, and charges the choice in the same step. A pinned query
	// goes to its replica if that is available. A query whose probing round ends is decided by the
	// answers. If explanation is not nil, it is overwritten with what the choice was made from; it
	// does not affect the choice. The query is not kept.
	Choose(now Instant, query *Query, draw Draw, explanation *Explanation) Decision

	// HandleHead handles the head of a query's response: the latency ends now, while the query stays
	// in flight to its last byte. The outcome is that of the head: [OutcomeSuccess],
	// [OutcomeFailed] or [OutcomePushedBack]. Only the first call for a ticket counts. Without one,
	// latency ends with the query.
	HandleHead(now Instant, ticket *Ticket, outcome Outcome)

	// HandleDone handles the end of a query, with any outcome. Each ticket is returned exactly once.
	HandleDone(now Instant, ticket Ticket, outcome Outcome)

	// NextProbe returns the next probe to send, if one is due. Call it after each event and choice
	// until it returns false. Send each probe, and pass the answer back as an [EventReport].
	NextProbe(now Instant, draw Draw) (Probe, bool)

	// ProbeTarget returns the replica that a probe was sent to, unless the probe has ended.
	ProbeTarget(probe ProbeID) (ReplicaID, bool)

	// NextTimeout returns when the policy next needs an [EventTimeout], if at all.
	NextTimeout() (Instant, bool)

	// WantsTrial reports whether a query with attempt [AttemptTrial] would find a replica now, as of
	// the last event. Only health uses trials.
	WantsTrial() bool

	// Fleet returns the known replicas, and which of them are available. The caller does not change
	// it.
	Fleet() *Fleet

	// Counters returns counts since the start.
	Counters() Counters

	// Snapshot returns the state of the policy, for display. It allocates, so it must not be used on
	// a query's path.
	Snapshot(now Instant) Snapshot
}

// Default is the name of the default policy. It needs no knowledge of the fleet, and is near the
// best in small and large, equal and unequal fleets.
const Default = "shortest_expected_delay"

var policies = []struct {
	name      string
	build     func(*Settings) Policy
	hasRounds bool
}{
	{Default, newShortestExpectedDelay, false},
	{"prequal", newPrequal, false},
	{"prequal_sync", newPrequalSync, true},
	{"least_loaded", newLeastLoaded, false},
	{"random", newRandom, false},
}

// HasRounds reports whether the policy of this name probes for a query before it picks: see
// [ProbeFirst].
func HasRounds(name string) bool {
	for i := range policies {
		if policies[i].name == name {
			return policies[i].hasRounds
		}
	}
	return false
}

// Names returns the names of all policies, the default first.
func Names() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	return names
}

// New returns the policy of this name, with an empty fleet. It fails if the name is unknown, or if
// a setting is out of its range, with a [*SettingError].
func New(name string, settings Settings) (Policy, error) {
	if err := settings.Validate(); err != nil {
		return nil, fmt.Errorf("settings of policy %s: %w", name, err)
	}
	for i := range policies {
		if policies[i].name == name {
			return policies[i].build(&settings), nil
		}
	}
	return nil, fmt.Errorf("unknown policy %q; known are %s", name, strings.Join(Names(), ", "))
}
