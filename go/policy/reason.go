package policy

import (
	"iter"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// PickReason is why a replica was chosen.
type PickReason uint8

// The reasons. Their numbers are those of the Rust crate; some belong to policies that only that
// has.
const (
	// ReasonCold: it had the lowest latency among the cold.
	ReasonCold PickReason = iota
	// ReasonHot: all were hot, and it had the lowest RIF.
	ReasonHot
	// ReasonLowestScore: it had the lowest score of the compared reports.
	ReasonLowestScore
	// ReasonFallback: fewer than two reports were usable, so it is a random replica.
	ReasonFallback
	// ReasonPanic: no replica is available, so all may be chosen.
	ReasonPanic
	// ReasonSoleAnswer: it was the only one that answered a synchronous probe.
	ReasonSoleAnswer
	// ReasonRandom: a random pick, as is the policy's rule.
	ReasonRandom
	// ReasonTurn: it was its turn.
	ReasonTurn
	// ReasonLeastLoaded: it had the fewest queries of this client in flight.
	ReasonLeastLoaded
	// ReasonLowestCost: it had the lowest latency times queries in flight of the drawn replicas.
	ReasonLowestCost
	// ReasonLowestRIF: it had the lowest reported RIF of the drawn replicas.
	ReasonLowestRIF
	// ReasonWeighted: a random pick, in proportion to weights.
	ReasonWeighted
	// ReasonPinned: the query was pinned to it.
	ReasonPinned
	// ReasonTrial: it is out of the choice, and the query tests it.
	ReasonTrial
	// ReasonLastResort: it is not available, but the query has tried all available ones.
	ReasonLastResort
	// ReasonRoom: all were full, and it was the first with a free permit.
	ReasonRoom
	// ReasonKeyHome: it is a home of the query's key.
	ReasonKeyHome
	// ReasonKeySet: the homes of the query's key were busy or out, and it is of the key's set.
	ReasonKeySet
	// ReasonKeySpill: the key's set was busy or out, so any replica could be chosen.
	ReasonKeySpill

	reasonCount
)

var reasonNames = [reasonCount]string{
	"cold", "hot", "lowest_score", "fallback", "panic", "sole_answer", "random", "turn",
	"least_loaded", "lowest_cost", "lowest_rif", "weighted", "pinned", "trial", "last_resort", "room",
	"key_home", "key_set", "key_spill",
}

// String returns the reason's name, such as lowest_score.
func (r PickReason) String() string { return nameOf(reasonNames[:], int(r)) }

// isComparison reports whether the best of several was chosen, so that there is a runner-up: not at
// random, in turn, or for lack of alternatives.
func (r PickReason) isComparison() bool {
	switch r {
	case ReasonCold, ReasonHot, ReasonLowestScore, ReasonLeastLoaded, ReasonLowestCost, ReasonLowestRIF:
		return true
	}
	return false
}

// ReasonCounts is the number of picks for each reason, indexed by [PickReason].
type ReasonCounts [reasonCount]uint64

// Of returns the picks for this reason.
func (c ReasonCounts) Of(reason PickReason) uint64 {
	if reason >= reasonCount {
		return 0
	}
	return c[reason]
}

// Total returns all picks.
func (c ReasonCounts) Total() uint64 {
	total := uint64(0)
	for _, picks := range c {
		total += picks
	}
	return total
}

// All returns each reason with its picks.
func (c ReasonCounts) All() iter.Seq2[PickReason, uint64] {
	return func(yield func(PickReason, uint64) bool) {
		for reason, picks := range c {
			if !yield(PickReason(reason), picks) {
				return
			}
		}
	}
}

// Recount moves picks that were counted for one reason to another. Package health counts its
// trials, which the policy sees as pinned queries, in this way, and package keys its choices.
func (c *ReasonCounts) Recount(from, to PickReason, picks uint64) {
	c[from] = ints.Sub(c[from], picks)
	c[to] += picks
}
