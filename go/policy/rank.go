package policy

import (
	"cmp"
	"math"
	"slices"
)

// load is what the hot–cold rule compares, in units that are the same for all candidates.
type load struct {
	// rif is the RIF, or the scaled RIF.
	rif uint64
	// latencyNS is the latency, or the stand-in for an unknown one.
	latencyNS uint64
}

// place is the sort key of a candidate; lower is better.
type place struct {
	// first is what decides.
	first uint64
	// second decides between equals in first.
	second uint64
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.first, other.first), cmp.Compare(p.second, other.second))
}

func (p place) less(other place) bool {
	return p.first < other.first || p.first == other.first && p.second < other.second
}

// clamped returns a place whose second part is at most this.
func (p place) clamped(most uint64) place { return place{p.first, min(p.second, most)} }

// poolPlaces and fleetPlaces are the largest second parts of places in a pool (or a round) and in a
// fleet, where a choice compares them. Larger ones count as equal to them, since the Rust crate
// packs a place and an index into 128 bits.
const (
	poolPlaces  = math.MaxUint64 >> 8
	fleetPlaces = math.MaxUint64 >> 20
)

// placed returns the place of the candidate at an index, or false if it is none.
type placed func(index int) (place, bool)

// ranking is the best of some candidates, and the second best.
type ranking struct {
	index int
	// first is what decided: the first part of its place.
	first uint64
	// runnerUp is −1 if there was one candidate.
	runnerUp int
}

// best returns the candidate in the lowest place. Among k equals, a single draw below k decides, in
// order of index; a single candidate needs no draw. The runner-up is the lowest of the rest, by
// place and then index.
func best(count int, at placed, draw Draw) (ranking, bool) {
	first, second := -1, -1
	var lowest, next place
	for index := range count {
		candidate, is := at(index)
		switch {
		case !is:
		case first < 0 || candidate.less(lowest):
			second, next = first, lowest
			first, lowest = index, candidate
		case second < 0 || candidate.less(next):
			second, next = index, candidate
		}
	}
	if first < 0 {
		return ranking{}, false
	}
	found := ranking{index: first, first: lowest.first, runnerUp: second}
	if second >= 0 && next == lowest {
		found.index = oneOf(count, at, lowest, draw)
		if found.index != first {
			// Another of the equals was drawn, so the lowest one is the runner-up.
			found.runnerUp = first
		}
	}
	return found, true
}

// worst returns the candidate in the highest place, or −1 if there is none. Equals are drawn, as in
// best.
func worst(count int, at placed, draw Draw) int {
	found, equals := -1, 0
	var highest place
	for index := range count {
		candidate, is := at(index)
		switch {
		case !is:
		case found < 0 || highest.less(candidate):
			found, highest, equals = index, candidate, 1
		case candidate == highest:
			found = index
			equals++
		}
	}
	if equals > 1 {
		return oneOf(count, at, highest, draw)
	}
	return found
}

// oneOf draws one of the candidates in this place. There must be one.
func oneOf(count int, at placed, tied place, draw Draw) int {
	equals := uint32(0)
	for index := range count {
		if candidate, is := at(index); is && candidate == tied {
			equals++
		}
	}
	skipped := Below(draw, equals)
	for index := range count {
		if candidate, is := at(index); is && candidate == tied {
			if skipped == 0 {
				return index
			}
			skipped--
		}
	}
	return -1
}

// standInNS returns the latency that stands for an unknown one: the median of the known ones,
// element ⌈k/2⌉. It is 0 if none is known, since all are then equal anyway. It changes the order of
// knownNS.
func standInNS(knownNS []uint64) uint64 {
	if len(knownNS) == 0 {
		return 0
	}
	slices.Sort(knownNS)
	return knownNS[(len(knownNS)+1)/2-1]
}
