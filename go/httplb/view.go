package httplb

import (
	"cmp"
	"slices"
	"time"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// Snapshot is the state of a transport at one moment, for display.
type Snapshot struct {
	// Policy is the policy's name.
	Policy string
	// InFlight is the number of requests in flight, including those to replicas that have left.
	InFlight int
	// Replicas are the replicas, ordered by their URLs.
	Replicas []ReplicaStatus
	// Counters are the policy's counts since the start.
	Counters policy.Counters
	// UDPProbes counts probes over UDP since the start; all zero without such probes.
	UDPProbes probe.ClientCounts
	// HTTPProbes counts probes over HTTP since the start; all zero without such probes.
	HTTPProbes probe.HTTPCounts
	// State is the policy's own state. Its replicas have the names of Replicas.
	State policy.Snapshot
}

// ReplicaStatus is the state of one replica.
type ReplicaStatus struct {
	policy.ReplicaView
	// URL is the replica's URL.
	URL string
	// State is the state in one word: available, warming_up, limited, draining, ejected, unreachable
	// (its probes time out) or unprobed (it has answered no probe).
	State string
	// Health is the replica's health. It is absent if health is off.
	Health policy.Optional[policy.HealthView]
}

// Snapshot returns the transport's state. It allocates, and takes the lock that picks take.
func (t *Transport) Snapshot() Snapshot {
	snapshot := t.balancer.snapshot()
	t.balancer.prober.count(&snapshot)
	healths := make(map[policy.ReplicaID]policy.HealthView, len(snapshot.State.Health))
	for _, health := range snapshot.State.Health {
		healths[health.Replica] = health
	}
	for i := range snapshot.Replicas {
		status := &snapshot.Replicas[i]
		status.Health.Value, status.Health.Known = healths[status.Replica]
		status.State = status.word()
	}
	slices.SortFunc(snapshot.Replicas, func(a, b ReplicaStatus) int { return cmp.Compare(a.URL, b.URL) })
	return snapshot
}

// snapshot returns what takes the lock. Picks wait for it, so the rest is done later.
func (b *balancer) snapshot() Snapshot {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	snapshot := Snapshot{
		Policy:   b.policy.Name(),
		InFlight: b.inFlight,
		Counters: b.policy.Counters(),
		State:    b.policy.Snapshot(now),
	}
	snapshot.Replicas = make([]ReplicaStatus, 0, len(snapshot.State.Replicas))
	for _, view := range snapshot.State.Replicas {
		snapshot.Replicas = append(snapshot.Replicas, ReplicaStatus{ReplicaView: view, URL: b.url(view.Replica)})
	}
	return snapshot
}

func (s *ReplicaStatus) word() string {
	byHealth := ""
	if s.Health.Known {
		byHealth = s.Health.Value.State.ReplicaState()
	}
	switch {
	case byHealth == "ejected":
		return byHealth
	case s.Lost:
		return "unreachable"
	case s.Draining:
		return "draining"
	case byHealth != "":
		return byHealth
	case s.Unprobed:
		return "unprobed"
	}
	return "available"
}

// url returns a replica's URL, or its name if it has left. The lock is held.
func (b *balancer) url(id policy.ReplicaID) string {
	if r := b.byID[id]; r != nil {
		return r.given.URL
	}
	return id.String()
}

// ExplainedPick is a pick, with what it was made from.
type ExplainedPick struct {
	// At is when it was made.
	At time.Time
	// Replica is the URL of the chosen replica.
	Replica string
	// Reason is the rule that decided.
	Reason policy.PickReason
	// RunnerUp is the second best; empty if replicas were not compared.
	RunnerUp string
	// Probing is the time that the request waited for its probes.
	Probing time.Duration
	// Comparison is how the candidates were compared; nil if they were not.
	Comparison *policy.Comparison
	// Candidates are the compared replicas, best first, at most [policy.MaxCandidates].
	Candidates []ExplainedCandidate
	// Outs are replicas that could not be chosen, or only for a part of their share, at most
	// [policy.MaxOuts].
	Outs []ExplainedOut
}

// ExplainedCandidate is a replica that was compared.
type ExplainedCandidate struct {
	policy.Candidate
	// URL is the replica's URL.
	URL string
}

// ExplainedOut is a replica that could not be chosen.
type ExplainedOut struct {
	policy.Out
	// URL is the replica's URL.
	URL string
}

// Explain returns the last picks, newest first, as many as [WithExplanations] keeps. It allocates,
// and takes the lock that picks take.
func (t *Transport) Explain() []ExplainedPick {
	b := t.balancer
	b.mu.Lock()
	defer b.mu.Unlock()
	picks := make([]ExplainedPick, 0, b.kept.count)
	for i := range b.kept.count {
		picks = append(picks, b.explained(b.kept.newest(i)))
	}
	return picks
}

func (b *balancer) explained(kept *keptPick) ExplainedPick {
	e := kept.explanation
	pick := ExplainedPick{
		At:         b.epoch.Add(time.Duration(kept.at)),
		Replica:    kept.replica,
		Reason:     kept.reason,
		Probing:    kept.probing,
		Comparison: e.Comparison(),
	}
	if runnerUp, known := e.RunnerUp(); known {
		pick.RunnerUp = b.url(runnerUp)
	}
	for _, candidate := range e.Candidates() {
		pick.Candidates = append(pick.Candidates, ExplainedCandidate{candidate, b.url(candidate.Replica)})
	}
	for _, out := range e.Outs() {
		pick.Outs = append(pick.Outs, ExplainedOut{out, b.url(out.Replica)})
	}
	return pick
}

// keptPicks is a ring of the last picks. Without space it does nothing.
type keptPicks struct {
	ring  []keptPick
	first int // the place of the next pick
	count int
}

type keptPick struct {
	at          policy.Instant
	replica     string
	reason      policy.PickReason
	probing     time.Duration
	explanation *policy.Explanation
}

// newKeptPicks has one place more than picks: that of the pick that is being made.
func newKeptPicks(picks int) keptPicks {
	if picks == 0 {
		return keptPicks{}
	}
	kept := keptPicks{ring: make([]keptPick, picks+1)}
	for i := range kept.ring {
		kept.ring[i].explanation = policy.NewExplanation()
	}
	return kept
}

// next returns the explanation to fill, or nil.
func (k *keptPicks) next() *policy.Explanation {
	if len(k.ring) == 0 {
		return nil
	}
	return k.ring[k.first].explanation
}

// keep keeps the pick whose explanation was filled.
func (k *keptPicks) keep(now policy.Instant, replica string, pick *policy.Pick) {
	if len(k.ring) == 0 {
		return
	}
	place := &k.ring[k.first]
	place.at, place.replica = now, replica
	place.reason, place.probing = pick.Reason, pick.Probing
	k.first = (k.first + 1) % len(k.ring)
	k.count = min(k.count+1, len(k.ring)-1)
}

// newest returns the pick that is this many before the last one.
func (k *keptPicks) newest(back int) *keptPick {
	return &k.ring[(k.first-1-back+2*len(k.ring))%len(k.ring)]
}
