package policy

import (
	"slices"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// MaxCandidates is the most candidates that an [Explanation] keeps: the best, and the chosen one.
	MaxCandidates = 32
	// MaxOuts is the most replicas that an [Explanation] keeps as out. If there are more, those with
	// a known reason are kept.
	MaxOuts = 16
)

// Explanation is what one choice was made from: the candidates as the policy saw them, the replicas
// that could not be chosen, and why. [Policy.Choose] fills it while the choice is made, so it shows
// the state before the query was charged. [NewExplanation] allocates all its memory; filling it
// allocates nothing. Without one, a choice costs nothing extra.
type Explanation struct {
	comparison *Comparison
	shared     Values
	draw       Optional[uint64]
	draws      notedDraws
	candidates []Candidate
	// worst is the place of the worst candidate in candidates, once it was needed, or −1.
	worst      int
	considered uint32
	cold       uint32
	hot        uint32
	rule       Optional[PickReason]
	chosen     Optional[ReplicaID]
	runnerUp   Optional[ReplicaID]
	outs       []Out
	out        uint32
	available  uint32
	key        KeyChoice
	hasKey     bool
}

// Candidate is a replica that was compared.
type Candidate struct {
	Replica ReplicaID
	// Report is its report, as it counted. It is absent for policies without reports, and if none
	// was known.
	Report Optional[PooledView]
	// InFlight is the number of queries that this client had in flight there.
	InFlight uint32
	// Values are the values of the factors that were compared.
	Values Values
	// CapacityMilliRIF is its capacity by its last report, in thousandths of a request in flight,
	// for policies that use it. It is absent if the replica reports none.
	CapacityMilliRIF Optional[uint32]
	// Cost is the cost of a query there by its last report, under the same conditions.
	Cost Optional[time.Duration]
	// Avoided says that it must not get this query: the query has tried it, it was full, or it was
	// spared because it is new or held back.
	Avoided bool
	// Number is how many candidates were compared before it.
	Number uint32

	// place is its place in the policy's comparison; lower is better.
	place place
}

// Out is a replica that could not be chosen, or only for a part of its share.
type Out struct {
	Replica ReplicaID
	Why     OutReason
	// ShareMillionths is the part of the queries that it may get, in millionths. 0 if it cannot be
	// chosen at all.
	ShareMillionths uint32
}

// OutReason is why a replica could not be chosen, in one word: one of the constants below, the name
// of a [HealthState], or the caller's own word.
type OutReason string

// The reasons of a policy.
const (
	// OutTakenOut: its caller took it out and gave the policy no reason.
	OutTakenOut OutReason = "taken_out"
	// OutDraining: its report has the draining flag.
	OutDraining OutReason = "draining"
	// OutLost: it has stopped answering probes while others answer.
	OutLost OutReason = "unreachable"
)

// NewExplanation returns an empty explanation, with all the memory that it will ever need.
func NewExplanation() *Explanation {
	return &Explanation{
		candidates: make([]Candidate, 0, MaxCandidates),
		outs:       make([]Out, 0, MaxOuts),
		worst:      -1,
		key:        KeyChoice{Set: make([]KeyServer, 0, AmongMax)},
	}
}

// Clear clears everything and keeps the memory.
func (e *Explanation) Clear() {
	key := KeyChoice{Set: e.key.Set[:0]}
	*e = Explanation{candidates: e.candidates[:0], outs: e.outs[:0], worst: -1, key: key}
}

// Comparison returns how the candidates were compared. It is nil if nothing was compared because
// the query was pinned.
func (e *Explanation) Comparison() *Comparison { return e.comparison }

// Shared returns the values of the comparison's shared factors.
func (e *Explanation) Shared() Values { return e.shared }

// Draw returns the draw that decided, if one did: uniform over all values.
func (e *Explanation) Draw() (uint64, bool) { return e.draw.Get() }

// Candidates returns the compared replicas, best first, and last those that must not get the query.
// There are at most [MaxCandidates]. The slice is valid until the explanation is used again.
func (e *Explanation) Candidates() []Candidate { return e.candidates }

// Considered returns how many replicas were compared.
func (e *Explanation) Considered() uint32 { return e.considered }

// Cold returns how many replicas that could get the query had a cold report. For policies without a
// limit, it is how many had a report.
func (e *Explanation) Cold() uint32 { return e.cold }

// Hot returns how many replicas that could get the query had a hot report.
func (e *Explanation) Hot() uint32 { return e.hot }

// Rule returns the rule that chose, even if the pick's reason is a lack of alternatives: in a panic
// the policy's own rule may decide among all, or chance. It is false if the query was pinned.
func (e *Explanation) Rule() (PickReason, bool) { return e.rule.Get() }

// Chosen returns the chosen replica, if any.
func (e *Explanation) Chosen() (ReplicaID, bool) { return e.chosen.Get() }

// RunnerUp returns the runner-up, if replicas were compared with each other.
func (e *Explanation) RunnerUp() (ReplicaID, bool) { return e.runnerUp.Get() }

// Outs returns replicas that could not be chosen, or only for a part of their share. There are at
// most [MaxOuts]. The slice is valid until the explanation is used again.
func (e *Explanation) Outs() []Out { return e.outs }

// Out returns how many such replicas there were, including any that are not kept.
func (e *Explanation) Out() uint32 { return e.out }

// Available returns how many replicas could be chosen. It is 0 in a panic, when all can.
func (e *Explanation) Available() uint32 { return e.available }

// Key returns what the choice for the query's key was made from. It is false without a key. The
// choice is valid until the explanation is used again.
func (e *Explanation) Key() (KeyChoice, bool) { return e.key, e.hasKey }

// SetKey records what the choice for the query's key was made from, which fill appends to an empty
// choice. It is for wrappers of a policy.
func (e *Explanation) SetKey(fill func(*KeyChoice)) {
	e.key = KeyChoice{Set: e.key.Set[:0]}
	fill(&e.key)
	e.hasKey = true
}

// SetAvailable sets how many replicas could be chosen. It is for wrappers of a policy.
func (e *Explanation) SetAvailable(replicas int) { e.available = uint32(replicas) }

// SayWhy sets the caller's reason, in one word, why this replica could not be chosen. It replaces
// any other reason. It is kept whenever there is space, or an entry without a reason to replace.
func (e *Explanation) SayWhy(replica ReplicaID, why OutReason) {
	out := Out{Replica: replica, Why: why}
	if place := e.outPlace(replica); place >= 0 {
		e.outs[place] = out
		return
	}
	e.NoteOut(out)
}

// SayOfOthers sets the caller's reason for all replicas that it took out without one.
func (e *Explanation) SayOfOthers(why OutReason) {
	for i := range e.outs {
		if e.outs[i].Why == OutTakenOut {
			e.outs[i].Why = why
		}
	}
}

// PassOver records a replica that the policy would have chosen and that its caller skipped, with
// the caller's reason in one word.
func (e *Explanation) PassOver(replica ReplicaID, why OutReason) {
	if e.outPlace(replica) < 0 {
		e.out = ints.Add(e.out, 1)
	}
	e.SayWhy(replica, why)
}

// NoteOut records a replica that is already counted as out. An entry without a reason is replaced;
// a better reason stays. It is for wrappers of a policy.
func (e *Explanation) NoteOut(out Out) {
	full := len(e.outs) == MaxOuts
	if full && out.Why == OutTakenOut {
		return
	}
	if place := e.outPlace(out.Replica); place >= 0 {
		if e.outs[place].Why == OutTakenOut {
			e.outs[place] = out
		}
		return
	}
	if !full {
		e.outs = append(e.outs, out)
		return
	}
	for place := len(e.outs) - 1; place >= 0; place-- {
		if e.outs[place].Why == OutTakenOut {
			e.outs[place] = out
			return
		}
	}
}

// AddOut counts and records a replica that the policy could choose and that health keeps out, or
// limits to less than its share. It is for wrappers of a policy.
func (e *Explanation) AddOut(out Out) {
	e.out = ints.Add(e.out, 1)
	e.NoteOut(out)
}

func (e *Explanation) outPlace(replica ReplicaID) int {
	return slices.IndexFunc(e.outs, func(out Out) bool { return out.Replica == replica })
}
