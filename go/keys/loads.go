package keys

import (
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// The load of each server for the bound: what its replicas have reported plus what this client has
// sent since, or what this client has in flight.
//
// A report counts for a second. From then on a replica counts with the client's own queries in
// flight there, times as many as the reporting replicas have for each of the client's own: other
// clients are assumed to have their part everywhere. All sums are kept as events arrive, so that a
// query looks only at the servers of its key.

// reportAgeNS is how long a report counts, in nanoseconds.
const reportAgeNS = 1_000_000_000

// row is what is known of one replica.
type row struct {
	// server is the server that it is a part of, or unplaced.
	server uint32
	// own is the number of this client's queries in flight there.
	own uint32
	// level is the reported RIF plus the client's own queries sent since, minus those that have
	// ended since; at least own. It has a meaning only while the report counts.
	level      uint32
	isReported bool
	reportedAt policy.Instant
}

func (r *row) sums() sums {
	if r.isReported {
		return sums{level: uint64(r.level), ownReported: uint64(r.own)}
	}
	return sums{ownUnreported: uint64(r.own)}
}

// sums are sums over replicas.
type sums struct {
	// level is the sum of the levels of those whose reports count.
	level uint64
	// ownReported is the number of the client's own queries in flight at those, and ownUnreported
	// that at the others.
	ownReported   uint64
	ownUnreported uint64
}

func (s *sums) add(other sums) {
	s.level += other.level
	s.ownReported += other.ownReported
	s.ownUnreported += other.ownUnreported
}

func (s *sums) subtract(other sums) {
	s.level -= other.level
	s.ownReported -= other.ownReported
	s.ownUnreported -= other.ownUnreported
}

// load returns the load, where all are the sums over all replicas.
func (s *sums) load(all *sums) uint64 {
	if s.ownUnreported == 0 {
		return s.level
	}
	return s.level + ints.MulDiv(s.ownUnreported, all.level+1, all.ownReported+1)
}

// bound is the most load at which servers still get queries of their keys.
type bound struct {
	// whole is factor × (load of all + 1), in millionths; absent without a bound.
	whole policy.Optional[uint64]
	parts uint64
}

// cap returns the cap of a server that is this many of all parts, rounded up. It is absent without
// a bound.
func (b *bound) cap(parts uint32) policy.Optional[uint64] {
	whole, isBounded := b.whole.Get()
	if !isBounded {
		return policy.Optional[uint64]{}
	}
	whole, each := ints.Mul(whole, uint64(parts)), uint64(policy.One)*max(b.parts, 1)
	cap := whole / each
	if whole%each > 0 {
		cap++
	}
	return policy.Some(cap)
}

// loads are the loads of all servers that may be chosen.
type loads struct {
	rows    policy.ReplicaMap[row]
	servers []sums
	all     sums
	parts   uint64
	// swept is the place of the replica whose report is checked next for its age.
	swept int
}

func (l *loads) add(replica policy.ReplicaID) {
	l.rows.Set(replica, row{server: unplaced})
	l.servers = slices.Grow(l.servers, max(replica.Index()+1-len(l.servers), 0))
}

func (l *loads) remove(replica policy.ReplicaID) {
	if r := l.take(replica); r != nil {
		l.rows.Remove(replica)
	}
}

// clear starts again: no replica may be chosen.
func (l *loads) clear(known []part) {
	for _, part := range known {
		if r := l.rows.Find(part.replica); r != nil {
			r.server = unplaced
		}
	}
	l.servers = l.servers[:0]
	l.all = sums{}
	l.parts = 0
}

// place lets a replica be chosen as a part of a server: the last one, or the one after it.
func (l *loads) place(replica policy.ReplicaID, server uint32) {
	if len(l.servers) <= int(server) {
		l.servers = append(l.servers, sums{})
	}
	l.parts++
	if r := l.take(replica); r != nil {
		r.server = server
		l.put(r)
	}
}

// take takes a replica out of all sums and returns it, to be changed and put back with put. It
// returns nil if the replica is not known.
func (l *loads) take(replica policy.ReplicaID) *row {
	r := l.rows.Find(replica)
	if r != nil && int(r.server) < len(l.servers) {
		l.servers[r.server].subtract(r.sums())
		l.all.subtract(r.sums())
	}
	return r
}

func (l *loads) put(r *row) {
	if int(r.server) < len(l.servers) {
		l.servers[r.server].add(r.sums())
		l.all.add(r.sums())
	}
}

// server returns the server that a replica is a part of, while it may be chosen, or unplaced.
func (l *loads) server(replica policy.ReplicaID) uint32 {
	if r := l.rows.Find(replica); r != nil {
		return r.server
	}
	return unplaced
}

// own returns the client's own queries in flight at a replica.
func (l *loads) own(replica policy.ReplicaID) uint32 {
	if r := l.rows.Find(replica); r != nil {
		return r.own
	}
	return 0
}

func (l *loads) reported(now policy.Instant, replica policy.ReplicaID, rif uint32) {
	if r := l.take(replica); r != nil {
		r.level = max(rif, r.own)
		r.isReported, r.reportedAt = true, now
		l.put(r)
	}
}

// siblingsSent counts queries of other clients until the replica reports again.
func (l *loads) siblingsSent(replica policy.ReplicaID, queries uint32) {
	if r := l.take(replica); r != nil {
		r.level = ints.Add(r.level, queries)
		l.put(r)
	}
}

func (l *loads) sent(replica policy.ReplicaID) {
	if r := l.take(replica); r != nil {
		r.own, r.level = ints.Add(r.own, 1), ints.Add(r.level, 1)
		l.put(r)
	}
}

func (l *loads) done(replica policy.ReplicaID) {
	if r := l.rows.Find(replica); r != nil && r.own > 0 {
		l.take(replica)
		r.own--
		r.level = max(ints.Sub(r.level, 1), r.own)
		l.put(r)
	}
}

// expire lets the report of a replica count no longer, if it is old.
func (l *loads) expire(now policy.Instant, replica policy.ReplicaID) {
	r := l.rows.Find(replica)
	if r != nil && r.isReported && ints.Sub(uint64(now), uint64(r.reportedAt)) >= reportAgeNS {
		l.take(replica)
		r.isReported = false
		l.put(r)
	}
}

// sweep checks the report of the next of these replicas for its age.
func (l *loads) sweep(now policy.Instant, replicas []policy.ReplicaID) {
	if l.swept >= len(replicas) {
		l.swept = 0
		return
	}
	l.expire(now, replicas[l.swept])
	l.swept++
}

// load returns the load of a server.
func (l *loads) load(server uint32) uint64 {
	if int(server) >= len(l.servers) {
		return 0
	}
	return l.servers[server].load(&l.all)
}

// bound returns the bound with this factor, for the query that is about to be sent. A factor of 0
// is none.
func (l *loads) bound(factor policy.Millionths) bound {
	b := bound{parts: l.parts}
	if factor > 0 {
		b.whole = policy.Some(ints.Mul(l.all.load(&l.all)+1, uint64(factor)))
	}
	return b
}
