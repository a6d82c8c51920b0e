package keys

import (
	"cmp"
	"math"
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// The order of a key's servers: rendezvous hashing with weights.
//
// A key and a server give a score, a fraction of one, and a server's weight is the number of its
// parts that may be chosen. The order of a key's servers is that of −log2(score) / weight, from the
// lowest up. So a server of weight w is first for w times as many keys, and one that leaves, joins
// or gets another weight moves only keys that it had or gets. The order is the same if all weights
// are multiplied by one number. All clients that know the same names agree.

// orderedMax is the most servers in an order.
const orderedMax = policy.AmongMax

// part is a replica of the fleet, as a part of its server.
type part struct {
	identity policy.Identity
	replica  policy.ReplicaID
}

func (p part) compare(other part) int {
	return cmp.Or(
		p.identity.Compare(other.identity),
		cmp.Compare(p.replica.Index(), other.replica.Index()),
		cmp.Compare(p.replica, other.replica),
	)
}

// order is the parts of the fleet, and the servers that may be chosen.
type order struct {
	// known are sorted if isSorted. Identities change only in the table until then.
	known      []part
	identities policy.ReplicaMap[policy.Identity]
	isSorted   bool
	// hashes has the hash of each server that may be chosen, alone in its table, since a key without
	// a partition is compared with all of them.
	hashes []uint64
	// isWeighted: servers do not have the same number of parts.
	isWeighted bool
	// parts that may be chosen: those of a server are next to each other.
	parts []policy.ReplicaID
	// begins has where the parts of each server begin, and at the end how many there are.
	begins       []uint32
	fleetVersion policy.Optional[uint64]
	// version changes with the servers that may be chosen, or their names.
	version uint32
}

func (o *order) add(replica policy.ReplicaID) {
	identity := policy.Identity{Name: mix(uint64(replica))}
	o.identities.Set(replica, identity)
	o.known = append(o.known, part{identity: identity, replica: replica})
	count := len(o.known)
	o.hashes = slices.Grow(o.hashes, max(count-len(o.hashes), 0))
	o.parts = slices.Grow(o.parts, max(count-len(o.parts), 0))
	o.begins = slices.Grow(o.begins, max(count+1-len(o.begins), 0))
	o.isSorted = false
}

func (o *order) remove(replica policy.ReplicaID) {
	o.identities.Remove(replica)
	o.known = slices.DeleteFunc(o.known, func(p part) bool { return p.replica == replica })
}

func (o *order) identify(replica policy.ReplicaID, identity policy.Identity) {
	if known := o.identities.Find(replica); known != nil {
		*known = identity
		o.isSorted = false
	}
}

// isCurrent reports whether nothing has changed since the last refresh.
func (o *order) isCurrent(fleet *policy.Fleet) bool {
	return o.isSorted && o.fleetVersion == policy.Some(fleet.Version())
}

// refresh takes in changes of the fleet and of names.
func (o *order) refresh(fleet *policy.Fleet, loads *loads) {
	isChanged := !o.isSorted
	if !o.isSorted {
		for i := range o.known {
			if identity := o.identities.Find(o.known[i].replica); identity != nil {
				o.known[i].identity = *identity
			}
		}
		slices.SortFunc(o.known, part.compare)
		o.isSorted = true
	}
	o.fleetVersion = policy.Some(fleet.Version())
	before := o.parts
	o.parts = o.parts[:0]
	o.begins = o.begins[:0]
	loads.clear(o.known)
	server, last := uint32(0), policy.Optional[uint64]{}
	for _, part := range o.known {
		if !fleet.IsChoosable(part.replica) {
			continue
		}
		if last != policy.Some(part.identity.Name) {
			server = uint32(len(o.begins))
			o.begins = append(o.begins, uint32(len(o.parts)))
			last = policy.Some(part.identity.Name)
		}
		place := len(o.parts)
		isChanged = isChanged || place >= len(before) || before[place] != part.replica
		o.parts = append(o.parts, part.replica)
		loads.place(part.replica, server)
	}
	o.begins = append(o.begins, uint32(len(o.parts)))
	if isChanged || len(o.parts) != len(before) {
		o.version++
		o.hashAll()
	}
}

func (o *order) hashAll() {
	o.hashes = o.hashes[:0]
	o.isWeighted = false
	for server := range uint32(o.servers()) {
		hash := uint64(0)
		if identity := o.identities.Find(o.parts[o.begins[server]]); identity != nil {
			hash = mix(identity.Name ^ mix(0))
		}
		o.hashes = append(o.hashes, hash)
		o.isWeighted = o.isWeighted || o.weight(server) != o.weight(0)
	}
}

// servers returns how many servers may be chosen.
func (o *order) servers() int { return max(len(o.begins), 1) - 1 }

// partsOf returns the parts of a server.
func (o *order) partsOf(server uint32) []policy.ReplicaID {
	if uint64(server) >= uint64(o.servers()) {
		return nil
	}
	return o.parts[o.begins[server]:o.begins[server+1]]
}

// weight returns the number of parts of a server.
func (o *order) weight(server uint32) uint32 { return uint32(len(o.partsOf(server))) }

// first returns the first servers for a key, at most width of them.
func (o *order) first(key uint64, width int) first {
	list := best{width: min(max(width, 1), orderedMax, o.servers())}
	factor := mix(key) | 1
	for place, hash := range o.hashes {
		// The score of a server for a key is the product of their difference with an odd number that
		// the key determines. For two servers and a random key, either is as likely to be higher.
		score, server := (key^hash)*factor, uint32(place)
		offered := entry{score: score&^serverMask | uint64(server)}
		if o.isWeighted {
			offered.rank = rank(score, o.weight(server))
		}
		if list.len < list.width || list.list[list.len-1].isBelow(offered) {
			list.offer(offered)
		}
	}
	return list.first()
}

// serverMask is the lower bits of an entry's score, which are its server: there are at most as many
// servers as replicas.
const serverMask = policy.MaxReplicas - 1

// entry is a server's place in the order. Of equal scores the server with the higher name wins, for
// all clients.
type entry struct {
	// rank is that of the score among those of other weights, or 0 if all weights are equal.
	rank uint64
	// score has the server in its lower bits.
	score uint64
}

// isBelow reports whether another entry is earlier in the order.
func (e entry) isBelow(other entry) bool {
	return e.rank < other.rank || e.rank == other.rank && e.score < other.score
}

func (e entry) server() uint32 { return uint32(e.score & serverMask) }

// rank returns the rank of a score among those of other weights: the higher, the earlier in the
// order.
func rank(score uint64, weight uint32) uint64 {
	return ^(ints.MinusLog2(score) / uint64(max(weight, 1)))
}

// first is the first servers of an order.
type first struct {
	servers [orderedMax]uint32
	len     int
}

func (f *first) all() []uint32 { return f.servers[:f.len] }

// best is the servers with the highest entries.
type best struct {
	list  [orderedMax]entry
	len   int
	width int
}

// offer takes in an entry. If there are as many as the width, it exceeds the least.
func (b *best) offer(offered entry) {
	if b.len < b.width {
		b.len++
	}
	place := b.len - 1
	for place > 0 && b.list[place-1].isBelow(offered) {
		b.list[place] = b.list[place-1]
		place--
	}
	b.list[place] = offered
}

func (b *best) first() first {
	found := first{len: b.len}
	for place, entry := range b.list[:b.len] {
		found.servers[place] = entry.server()
	}
	return found
}

// unplaced is the server of a replica that may not be chosen.
const unplaced = math.MaxUint32
