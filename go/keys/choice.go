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
	// first has the key's servers in their order: all of the set, or the homes alone.
	first first
	// homes is how many of them are homes.
	homes int
}

// homesOf returns the homes of a key, as of now.
func (k *keyed) homesOf(key policy.KeyHash) set {
	if number, known := k.partitions.of(key).Get(); known {
		return set{
			partition: policy.Some(number),
			first:     k.partitions.first(number, &k.order),
			homes:     int(k.partitions.list[number].homes),
		}
	}
	return set{first: k.order.first(uint64(key), 1), homes: 1}
}

// complete completes a set that may have only the homes.
func (k *keyed) complete(key policy.KeyHash, of *set) {
	if of.partition.Known {
		return
	}
	width := k.settings.Set
	if k.hasRounds {
		width = max(width, k.settings.HintHomes)
	}
	of.first = k.order.first(uint64(key), int(width))
}

// members returns the servers of a set, which are the homes if there are more.
func (k *keyed) members(of *set) []uint32 {
	return of.first.all()[:min(of.first.len, max(int(k.settings.Set), of.homes))]
}

// narrow fills in the replicas that the query prefers, and those that it may go to if it can go to
// none of them. Both are empty if all replicas of the set are busy or avoided. With sparesSome,
// health may keep the query from a home.
func (k *keyed) narrow(now policy.Instant, query *policy.Query, key policy.KeyHash, of *set, sparesSome bool) {
	k.homes, k.among = k.homes[:0], k.among[:0]
	if k.hasRounds {
		k.complete(key, of)
		hinted := of.first.all()
		for _, server := range hinted[:min(len(hinted), int(k.settings.HintHomes))] {
			if replica, found := k.partFor(server, query); found {
				k.homes = append(k.homes, replica)
			}
		}
		return
	}
	// Usually a home is free and gets the query. Then nothing else is looked at, nor ranked.
	if len(query.Avoid) == 0 && !sparesSome {
		homes := min(of.homes, of.first.len)
		k.takeFree(now, query, of.first.all()[:homes], homes)
		if len(k.homes) > 0 {
			return
		}
	}
	k.complete(key, of)
	k.takeFree(now, query, k.members(of), of.homes)
}

// sparesSome lets health settle, and returns whether it may keep the query from a replica that may
// be chosen.
func (k *keyed) sparesSome(now policy.Instant) bool {
	inner, isGuarded := k.policy.(interface{ SparesSome(policy.Instant) bool })
	return isGuarded && inner.SparesSome(now)
}

// takeFree takes those of some servers that are not busy, of which the first are homes.
func (k *keyed) takeFree(now policy.Instant, query *policy.Query, servers []uint32, homes int) {
	// Before any of them is compared, because that changes the caps.
	for _, server := range servers {
		for _, part := range k.order.partsOf(server) {
			k.loads.expire(now, part)
		}
	}
	var by policy.Optional[delays]
	for _, server := range servers {
		replica, found := k.partFor(server, query)
		if !found {
			// Homes that the query avoids are replaced by the next in order.
			continue
		}
		if k.isFree(server, &by) {
			k.among = append(k.among, replica)
			if homes > 0 {
				k.homes = append(k.homes, replica)
			}
		}
		homes--
	}
}

// isFree returns whether a server is not busy. It computes the delays when they are first needed.
func (k *keyed) isFree(server uint32, by *policy.Optional[delays]) bool {
	load := k.loads.load(server)
	if load == 0 {
		return true
	}
	if !by.Known {
		*by = policy.Some(k.loads.delays())
	}
	weight, factor := k.order.weight(server), k.settings.BalanceFactor
	cap, isBounded := k.loads.capOf(server, weight, factor, &by.Value).Get()
	return !isBounded || load < cap
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
		if slices.Contains(query.Avoid, part) {
			continue
		}
		if own := k.loads.own(part); !found.Known || own < fewest {
			found, fewest = policy.Some(part), own
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
	by := k.loads.delays()
	for _, server := range k.members(of) {
		replica, found := k.partFor(server, query)
		if parts := k.order.partsOf(server); !found && len(parts) > 0 {
			replica = parts[0]
		}
		choice.Set = append(choice.Set, policy.KeyServer{
			Replica: replica,
			Load:    k.loads.load(server),
			Cap:     k.loads.capOf(server, k.order.weight(server), factor, &by),
			Avoided: !found,
		})
	}
}
