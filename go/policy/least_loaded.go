package policy

// fewestInFlightInTurn sends each query to the replica where this client has the fewest in flight.
// A pick looks at every available replica, so it takes time in proportion to the fleet. Ties rotate,
// so that an idle client does not always start at the same replica.
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
	best, lowest := -1, uint32(0)
	for offset := range replicas {
		replica := replicas[(start+offset)%len(replicas)]
		if !query.Allows(replica) {
			continue
		}
		inFlight := fleet.InFlight(replica)
		if explanation != nil {
			explanation.consider(Candidate{
				Replica:  replica,
				InFlight: inFlight,
				Values:   valuesOf(uint64(inFlight)),
				place:    place{first: uint64(inFlight)},
			})
		}
		// The first of equals is the nearest after the last pick.
		if best < 0 || inFlight < lowest {
			best, lowest = offset, inFlight
		}
	}
	if best < 0 {
		return 0, false
	}
	r.next = Some(start + best + 1)
	return replicas[(start+best)%len(replicas)], true
}
