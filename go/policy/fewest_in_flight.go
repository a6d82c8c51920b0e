package policy

// The choice of shortest_expected_delay when no report helps: the replica where this client has the
// fewest queries in flight; equals are drawn. Unprobed replicas that are out of reach come last.

// byFewestInFlight is how replicas are compared then.
var byFewestInFlight = &Comparison{
	Name:    "fewest_in_flight",
	Formula: "fewest requests in flight from this worker",
	Factors: []Factor{flag("out_of_reach", "out of reach"), ownInFlight},
	Order:   []Step{{By: "out_of_reach"}, {By: "in_flight"}},
	Equals:  EqualsDraw,
}

func fewestInFlight(now Instant, query *Query, client *client, draw Draw) (choice, bool) {
	fleet := &client.fleet
	replicas := fleet.choiceFor(query)
	found, any := fewestInFlightOf(replicas, now, query, client, draw)
	if !any && query.mayLeaveChoice() {
		replicas = fleet.Known()
		found, any = fewestInFlightOf(replicas, now, query, client, draw)
	}
	if !any {
		return choice{}, false
	}
	chosen := choice{
		replica: replicas[found.index],
		reason:  fleet.reasonFor(replicas[found.index], ReasonLeastLoaded),
	}
	if found.runnerUp >= 0 {
		chosen.runnerUp = Some(replicas[found.runnerUp])
	}
	return chosen, true
}

func fewestInFlightOf(
	replicas []ReplicaID, now Instant, query *Query, client *client, draw Draw,
) (ranking, bool) {
	return best(len(replicas), func(index int) (place, bool) {
		return inFlightPlace(now, client, replicas[index]), query.Allows(replicas[index])
	}, draw)
}

// inFlightPlace returns the place of a replica in this comparison.
func inFlightPlace(now Instant, client *client, replica ReplicaID) place {
	return place{
		first:  uint64(number(client.locals.isOutOfReach(now, replica))),
		second: uint64(client.fleet.InFlight(replica)),
	}
}

func explainFewestInFlight(now Instant, query *Query, client *client, explanation *Explanation) {
	explanation.compare(byFewestInFlight, Values{})
	for _, replica := range client.fleet.allowedSet(query) {
		place := inFlightPlace(now, client, replica)
		explanation.consider(Candidate{
			Replica:  replica,
			InFlight: client.fleet.InFlight(replica),
			Values:   valuesOf(place.first, place.second),
			Avoided:  !query.Allows(replica),
			place:    place,
		})
	}
}
