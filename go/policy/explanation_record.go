package policy

import (
	"cmp"
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// How policies fill an [Explanation].

// begin starts a choice: this many of the known replicas can be chosen.
func (e *Explanation) begin(available, known int) {
	e.Clear()
	e.available = uint32(available)
	e.out = uint32(max(known-available, 0))
}

// compare sets how candidates are compared from here on, and drops those of an earlier comparison.
func (e *Explanation) compare(comparison *Comparison, shared Values) {
	e.comparison = comparison
	e.shared = shared
	e.candidates = e.candidates[:0]
	e.worst = -1
	e.considered, e.cold, e.hot = 0, 0, 0
}

// consider records a compared replica, if there is space or a worse one to replace.
func (e *Explanation) consider(candidate Candidate) {
	if report, known := candidate.Report.Get(); known && !candidate.Avoided {
		if report.Hot {
			e.hot++
		} else {
			e.cold++
		}
	}
	candidate.Number = e.considered
	e.considered = ints.Add(e.considered, 1)
	if len(e.candidates) < MaxCandidates {
		e.candidates = append(e.candidates, candidate)
		return
	}
	if place := e.worstPlace(); candidate.compare(&e.candidates[place]) < 0 {
		e.candidates[place] = candidate
		e.worst = -1
	}
}

// worstPlace returns the place of the candidate to replace first. There must be one.
func (e *Explanation) worstPlace() int {
	if e.worst < 0 {
		e.worst = 0
		for i := range e.candidates {
			if e.candidates[i].compare(&e.candidates[e.worst]) >= 0 {
				e.worst = i
			}
		}
	}
	return e.worst
}

// keep records the replica that will be chosen, in any case.
func (e *Explanation) keep(candidate Candidate) {
	isSame := func(other Candidate) bool { return other.Replica == candidate.Replica }
	if e.considered == 0 || len(e.candidates) == 0 || slices.ContainsFunc(e.candidates, isSame) {
		return
	}
	e.candidates[e.worstPlace()] = candidate
	e.worst = -1
}

// choose sets the choice and its rule. The runner-up is determined here if the policy does not know
// it.
func (e *Explanation) choose(chosen Candidate, rule PickReason, runnerUp Optional[ReplicaID]) {
	if rule.isComparison() && len(e.candidates) > 0 {
		// The choice may be one of very many equals.
		best := &e.candidates[0]
		for i := range e.candidates {
			if e.candidates[i].compare(best) < 0 {
				best = &e.candidates[i]
			}
		}
		chosen.Values, chosen.place = best.Values, best.place
		chosen.Number = ^uint32(0)
		e.keep(chosen)
	}
	replica := chosen.Replica
	e.rule = Some(rule)
	e.chosen = Some(replica)
	// The chosen one sorts first among equals.
	slices.SortFunc(e.candidates, func(a, b Candidate) int {
		return cmp.Or(
			number(a.Avoided)-number(b.Avoided),
			a.place.compare(b.place),
			number(a.Replica != replica)-number(b.Replica != replica),
			cmp.Compare(a.Number, b.Number),
		)
	})
	e.runnerUp = runnerUp
	if runnerUp.Known || !rule.isComparison() {
		return
	}
	for i := range e.candidates {
		if other := &e.candidates[i]; other.Replica != replica && !other.Avoided {
			e.runnerUp = Some(other.Replica)
			return
		}
	}
}

// choosePinned sets a choice that was made elsewhere.
func (e *Explanation) choosePinned(replica ReplicaID) { e.chosen = Some(replica) }

// compare orders candidates, the better one first: not avoided, then by place, and of equals the
// one that was compared first.
func (c *Candidate) compare(other *Candidate) int {
	return cmp.Or(
		number(c.Avoided)-number(other.Avoided),
		c.place.compare(other.place),
		cmp.Compare(c.Number, other.Number),
	)
}

// notedDraws are draws that note the last one.
type notedDraws struct {
	draw Draw
	last Optional[uint64]
}

// Draw returns the next draw.
func (n *notedDraws) Draw() uint64 {
	draw := n.draw.Draw()
	n.last = Some(draw)
	return draw
}

// noting returns draws of which [Explanation.noteDraw] records the last one.
func (e *Explanation) noting(draw Draw) Draw {
	e.draws = notedDraws{draw: draw}
	return &e.draws
}

// noteDraw records the last draw of the choice, if draws decide between equals. It returns the
// draws that were noted.
func (e *Explanation) noteDraw() Draw {
	if e.comparison != nil && e.comparison.Equals == EqualsDraw {
		e.draw = e.draws.last
	} else {
		e.draw = Optional[uint64]{}
	}
	draw := e.draws.draw
	e.draws = notedDraws{}
	return draw
}
