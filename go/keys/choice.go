package keys

import (
	"slices"

	"github.com/slackwater/slackwater/go/policy"
)

// The choice for a key: its homes while they are below their cap, else the others of its set, else
// all replicas.

// set is what the choice for one key is made from.
type set struct {
	partition policy.Optional[uint16]
	// first has the key's servers in their order.
	first first
	// homes is how many of them are homes.
	homes int
}

// setOf returns the servers of a key, as of now.
func (k *keyed) setOf(key policy.KeyHash) set {
	if number, known := k.partitions.of(key).Get(); known {
		return set{
			partition: policy.Some(number),
			first:     k.partitions.first(number, &k.order),
			homes:     int(k.partitions.list[number].homes),
		}
	}
	width := k.settings.Set
	if k.hasRounds {
		width = max(width, k.settings.HintHomes)
	}
	return set{first: k.order.first(uint64(key), int(width)), homes: 1}
}

// members returns the servers of a set, which are the homes if there are more.
func (k *keyed) members(of *set) []uint32 {
	return of.first.all()[:min(of.first.len, max(int(k.settings.Set), of.homes))]
}

// narrow fills in the replicas that the query prefers, and those that it may go to if it can go to
// none of them. Both are empty if all replicas of the set are busy or avoided.
func (k *keyed) narrow(now policy.Instant, query *policy.Query, of *set) {
	k.homes, k.among = k.homes[:0], k.among[:0]
	if k.hasRounds {
		hinted := of.first.all()
		for _, server := range hinted[:min(len(hinted), int(k.settings.HintHomes))] {
			if replica, found := k.partFor(server, query); found {
				k.homes = append(k.homes, replica)
			}
		}
		return
	}
	members := k.members(of)
	for _, server := range members {
		for _, part := range k.order.partsOf(server) {
			k.loads.expire(now, part.replica)
		}
	}
	bound := k.loads.bound(k.settings.BalanceFactor)
	// Homes that the query avoids are replaced by the next in order.
	left := of.homes
	for _, server := range members {
		replica, found := k.partFor(server, query)
		if !found {
			continue
		}
		isHome := left > 0
		left = max(left-1, 0)
		cap, bounded := k.loads.capOf(server, k.order.weight(server), &bound).Get()
		if !bounded || k.loads.load(server) < cap {
			k.among = append(k.among, replica)
			if isHome {
				k.homes = append(k.homes, replica)
			}
		}
	}
}

// partFor returns the part of a server that gets the query: the one with the fewest of this
// client's queries in flight. It returns false if the query may go to none.
func (k *keyed) partFor(server uint32, query *policy.Query) (policy.ReplicaID, bool) {
	parts := k.order.partsOf(server)
	// Another attempt does not go to another part of a server that it has tried.
	if len(parts) > 1 && query.Attempt != policy.AttemptFirst {
		for _, tried := range query.Avoid {
			if k.loads.server(tried) == server {
				return 0, false
			}
		}
	}
	var found policy.Optional[policy.ReplicaID]
	fewest := uint32(0)
	for _, part := range parts {
		if slices.Contains(query.Avoid, part.replica) {
			continue
		}
		if own := k.loads.own(part.replica); !found.Known || own < fewest {
			found, fewest = policy.Some(part.replica), own
		}
	}
	return found.Get()
}

// reason returns why a replica was chosen for a query with a key.
func (k *keyed) reason(replica policy.ReplicaID, of *set) policy.PickReason {
	if !k.hasRounds && !slices.Contains(k.among, replica) {
		return policy.ReasonKeySpill
	}
	server := k.loads.server(replica)
	if server == unplaced {
		return policy.ReasonKeySpill
	}
	switch place := slices.Index(k.members(of), server); {
	case place < 0:
		return policy.ReasonKeySpill
	case place < of.homes:
		return policy.ReasonKeyHome
	default:
		return policy.ReasonKeySet
	}
}

// explain fills in what the choice is made from, before the query is charged.
func (k *keyed) explain(query *policy.Query, of *set, choice *policy.KeyChoice) {
	choice.Partition, choice.Homes = of.partition, of.homes
	factor := k.settings.BalanceFactor
	if k.hasRounds {
		factor = 0
	}
	bound := k.loads.bound(factor)
	for _, server := range k.members(of) {
		replica, found := k.partFor(server, query)
		if parts := k.order.partsOf(server); !found && len(parts) > 0 {
			replica = parts[0].replica
		}
		choice.Set = append(choice.Set, policy.KeyServer{
			Replica: replica,
			Load:    k.loads.load(server),
			Cap:     k.loads.capOf(server, k.order.weight(server), &bound),
			Avoided: !found,
		})
	}
}
