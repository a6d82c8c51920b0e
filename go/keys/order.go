package keys

import (
	"cmp"
	"math"
	"slices"

	"github.com/slackwater/slackwater/go/policy"
)

// The order of a key's servers: rendezvous hashing over the parts that may be chosen.
//
// A key and a part give a score, and a server has the highest score of its parts. The order of a
// key's servers is that of their scores. So a server that leaves or joins moves only the keys that
// it had or gets, and a server of w parts is first for w times as many keys. All clients that know
// the same names agree.

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

// choosable is a part that may be chosen.
type choosable struct {
	replica policy.ReplicaID
	server  uint32
}

// order is the parts of the fleet, and the servers that may be chosen.
type order struct {
	// known are sorted if isSorted. Identities change only in the table until then.
	known      []part
	identities policy.ReplicaMap[policy.Identity]
	isSorted   bool
	// hashes has the hash of each part that may be chosen, alone in its table, since a key without a
	// partition is compared with all of them.
	hashes []uint64
	// parts is as long as hashes. Parts of a server are next to each other.
	parts []choosable
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
		place, next := len(o.parts), choosable{replica: part.replica, server: server}
		isChanged = isChanged || place >= len(before) || before[place] != next
		o.parts = append(o.parts, next)
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
	for _, part := range o.parts {
		hash := uint64(0)
		if identity := o.identities.Find(part.replica); identity != nil {
			hash = mix(identity.Name ^ mix(uint64(identity.Part)))
		}
		o.hashes = append(o.hashes, hash)
	}
}

// servers returns how many servers may be chosen.
func (o *order) servers() int { return max(len(o.begins), 1) - 1 }

// partsOf returns the parts of a server.
func (o *order) partsOf(server uint32) []choosable {
	if uint64(server) >= uint64(o.servers()) {
		return nil
	}
	return o.parts[o.begins[server]:o.begins[server+1]]
}

// weight returns the number of parts of a server.
func (o *order) weight(server uint32) uint32 { return uint32(len(o.partsOf(server))) }

// first returns the first servers for a key, at most width of them.
func (o *order) first(key uint64, width int) first {
	list := best{
		width:    min(max(width, 1), orderedMax, o.servers()),
		hasParts: len(o.parts) > o.servers(),
	}
	factor := mix(key) | 1
	for place, hash := range o.hashes {
		// The score of a part for a key is the product of their difference with an odd number that
		// the key determines. For two parts and a random key, either is as likely to be higher.
		score := (key ^ hash) * factor
		if entry := entryOf(score, o.parts[place].server); list.len < list.width || entry > list.least {
			list.offer(entry)
		}
	}
	return list.first()
}

// serverMask is the lower bits of an entry, which have the server: there are at most as many as
// replicas.
const serverMask = policy.MaxReplicas - 1

// entryOf returns a score, whose lower bits are those of the server.
func entryOf(score uint64, server uint32) uint64 { return score&^serverMask | uint64(server) }

func serverOf(entry uint64) uint32 { return uint32(entry & serverMask) }

// first is the first servers of an order.
type first struct {
	servers [orderedMax]uint32
	len     int
}

func (f *first) all() []uint32 { return f.servers[:f.len] }

// best is the servers with the highest entries. Of equal scores the server with the higher name
// wins, for all clients.
type best struct {
	list  [orderedMax]uint64
	len   int
	width int
	// least is the entry that another has to exceed, if there are as many as the width.
	least uint64
	// hasParts: a server may be offered several times. It stays with its highest score.
	hasParts bool
}

// offer takes in an entry. If there are as many as the width, it exceeds the least.
func (b *best) offer(entry uint64) {
	place := -1
	if b.hasParts {
		server := serverOf(entry)
		place = slices.IndexFunc(b.list[:b.len], func(other uint64) bool { return serverOf(other) == server })
	}
	switch {
	case place >= 0 && b.list[place] >= entry:
		return
	case place >= 0:
	case b.len < b.width:
		place = b.len
		b.len++
	default:
		place = b.len - 1
	}
	for place > 0 && b.list[place-1] < entry {
		b.list[place] = b.list[place-1]
		place--
	}
	b.list[place] = entry
	if b.len == b.width {
		b.least = b.list[b.len-1]
	}
}

func (b *best) first() first {
	found := first{len: b.len}
	for place, entry := range b.list[:b.len] {
		found.servers[place] = serverOf(entry)
	}
	return found
}

// unplaced is the server of a replica that may not be chosen.
const unplaced = math.MaxUint32
