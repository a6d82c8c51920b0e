package policy

import "slices"

// narrowed is a query that may go to a few replicas only, and those of them that may be chosen. A
// policy keeps one, so that a choice does not allocate.
//
// After narrowing, Among has no replica that the policy may not choose, so a rule can go through it
// in the place of the fleet.
type narrowed struct {
	replicas [AmongMax]ReplicaID
	query    Query
}

// narrow returns the query, which may go to these replicas only: the homes that it may go to, or if
// there are none those of Among, or if there are none all.
func (n *narrowed) narrow(fleet *Fleet, query *Query) *Query {
	if !query.isNarrow() {
		return query
	}
	among := appendChoosable(n.replicas[:0], fleet, query, query.Homes)
	if len(among) == 0 {
		among = appendChoosable(among, fleet, query, query.Among)
	}
	n.query = *query
	n.query.Among, n.query.Homes = among, nil
	return &n.query
}

// appendChoosable appends those of some replicas that the query may go to now, each once.
func appendChoosable(to []ReplicaID, fleet *Fleet, query *Query, some []ReplicaID) []ReplicaID {
	begin := len(to)
	for _, replica := range some[:min(len(some), AmongMax)] {
		isNew := !slices.Contains(to[begin:], replica)
		if isNew && fleet.IsChoosable(replica) && !query.avoids(replica) {
			to = append(to, replica)
		}
	}
	return to
}
