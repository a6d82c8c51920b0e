package policy

// fewestInFlightInTurn sends each query to the replica where this client has the fewest in flight.
// A pick looks at every available replica, so it takes time in proportion to the fleet. Ties
// rotate, so that an idle client does not always start at the same replica.
type fewestInFlightInTurn struct {
	// next is where the next search starts. It is absent before the first query.
	next Optional[int]
}

// byInFlightInTurn is how replicas are compared. They are numbered starting after the last pick.
var byInFlightInTurn = &Comparison{
	Name:    "fewest_in_flight_in_turn",
	Formula: "fewest requests in flight from this worker; of equals the next in turn",
	Factors: []Factor{ownInFlight},
	Order:   []Step{{By: "in_flight"}},
	Equals:  EqualsFirst,
}

func newLeastLoaded(*Settings) Policy {
	return &probeless{
		name:   "least_loaded",
		reason: ReasonLeastLoaded,
		rule:   &fewestInFlightInTurn{},
	}
}

func (r *fewestInFlightInTurn) choose(
	fleet *Fleet, query *Query, draw Draw, explanation *Explanation,
) (ReplicaID, bool) {
	replicas := fleet.choice()
	if len(replicas) == 0 {
		return 0, false
	}
	start, known := r.next.Get()
	if !known {
		start = int(Below(draw, uint32(len(replicas))))
	}
	start %= len(replicas)
	if explanation != nil {
		explanation.compare(byInFlightInTurn, Values{})
	}
	found, lowest := -1, uint32(0)
	place := start
	for range replicas {
		if replica := replicas[place]; query.Allows(replica) {
			inFlight := fleet.InFlight(replica)
			if explanation != nil {
				explainInFlight(explanation, replica, inFlight)
			}
			// The first of equals is the nearest after the last pick.
			if found < 0 || inFlight < lowest {
				found, lowest = place, inFlight
			}
		}
		if place++; place == len(replicas) {
			place = 0
		}
	}
	if found < 0 {
		return 0, false
	}
	// It is not wrapped here, since the fleet may be larger by then.
	r.next = Some(found + 1)
	if found < start {
		r.next.Value += len(replicas)
	}
	return replicas[found], true
}

func explainInFlight(explanation *Explanation, replica ReplicaID, inFlight uint32) {
	explanation.consider(Candidate{
		Replica:  replica,
		InFlight: inFlight,
		Values:   valuesOf(uint64(inFlight)),
		place:    place{first: uint64(inFlight)},
	})
}
