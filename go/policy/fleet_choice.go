package policy

// The replicas of a fleet that a query may go to.

// choice returns the replicas to choose from: the available ones, or all if none is available.
func (f *Fleet) choice() []ReplicaID {
	if f.available.Len() == 0 {
		return f.known.Members()
	}
	return f.available.Members()
}

// choiceFor returns the replicas to choose from for a narrowed query.
func (f *Fleet) choiceFor(query *Query) []ReplicaID {
	if len(query.Among) == 0 {
		return f.choice()
	}
	return query.Among
}

// reasonFor returns why a replica is chosen: the given reason, unless no replica is available, or
// no other replica is left.
func (f *Fleet) reasonFor(replica ReplicaID, reason PickReason) PickReason {
	switch {
	case f.InPanic():
		return ReasonPanic
	case f.IsAvailable(replica):
		return reason
	default:
		return ReasonLastResort
	}
}

// pinned returns the replica that the query is pinned to, if it may go there.
func (f *Fleet) pinned(query *Query) (ReplicaID, bool) {
	pinned, isPinned := query.Pinned.Get()
	return pinned, isPinned && f.IsAvailable(pinned) && !query.avoids(pinned)
}

// random returns a uniformly random replica that the query may go to.
func (f *Fleet) random(query *Query, draw Draw) (ReplicaID, bool) {
	replica, found := randomOf(f.choiceFor(query), query, draw)
	if !found && query.mayLeaveChoice() {
		return randomOf(f.Known(), query, draw)
	}
	return replica, found
}

// randomExplained is like random, and explains what the replica was drawn from.
func (f *Fleet) randomExplained(query *Query, draw Draw, explanation *Explanation) (ReplicaID, bool) {
	if explanation == nil {
		return f.random(query, draw)
	}
	f.explainChance(query, explanation)
	replica, found := f.random(query, explanation.noting(draw))
	explanation.noteDraw()
	return replica, found
}

// randomOf returns a uniformly random one of the replicas that the query allows. It counts instead
// of collecting: no allocation, one draw.
func randomOf(replicas []ReplicaID, query *Query, draw Draw) (ReplicaID, bool) {
	if query.allowsAll() {
		index := int(Below(draw, uint32(len(replicas))))
		if index >= len(replicas) {
			return 0, false
		}
		return replicas[index], true
	}
	allowed := uint32(0)
	for _, replica := range replicas {
		if query.Allows(replica) {
			allowed++
		}
	}
	index := Below(draw, allowed)
	for _, replica := range replicas {
		if !query.Allows(replica) {
			continue
		}
		if index == 0 {
			return replica, true
		}
		index--
	}
	return 0, false
}

// allowedSet returns the replicas to choose from. If the query has tried all of them and may leave
// them, it returns all known ones.
func (f *Fleet) allowedSet(query *Query) []ReplicaID {
	choice := f.choiceFor(query)
	for _, replica := range choice {
		if query.Allows(replica) {
			return choice
		}
	}
	if query.mayLeaveChoice() {
		return f.Known()
	}
	return choice
}

// explainChance records the replicas that random draws from.
func (f *Fleet) explainChance(query *Query, explanation *Explanation) {
	explanation.compare(chance, Values{})
	for _, replica := range f.allowedSet(query) {
		if query.Allows(replica) {
			explanation.consider(Candidate{Replica: replica, InFlight: f.InFlight(replica)})
		}
	}
}

// explain records how many replicas are available, and why others are not.
func (f *Fleet) explain(explanation *Explanation) {
	explanation.begin(f.available.Len(), f.known.Len())
	if f.available.Len() == f.known.Len() {
		return
	}
	for _, replica := range f.Known() {
		s := f.standings.Find(replica)
		if s == nil || f.mayBeChosen(s) {
			continue
		}
		why := OutLost
		switch {
		case s.ejected:
			why = OutTakenOut
		case s.draining:
			why = OutDraining
		}
		explanation.NoteOut(Out{Replica: replica, Why: why})
	}
}
