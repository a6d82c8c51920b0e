package keys

import (
	"math"
	"slices"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// The load of each server for the bound, and the load from which it is too much.
//
// The load is what a server's replicas have reported plus what this client has sent since, or what
// this client has in flight. A report counts for a second. From then on a replica counts with the
// client's own queries in flight there, times as many as the reporting replicas have for each of
// the client's own: other clients are assumed to have their part everywhere.
//
// How much is too much depends on how fast a server is. The next query takes about
// (load + 1) × mean latency there, and a server is at its cap if that is more than factor times the
// mean over the parts of the other servers. All sums are kept as events arrive, so that a query
// looks only at the servers of its key.

// reportAgeNS is how long a report counts, in nanoseconds.
const reportAgeNS = 1_000_000_000

// latencyMemory is by how much the difference to the latest latency is divided, by which the mean
// moves.
const latencyMemory = 64

// row is what is known of one replica.
type row struct {
	// server is the server that it is a part of, or unplaced.
	server uint32
	// own is the number of this client's queries in flight there.
	own uint32
	// level is the reported RIF plus the client's own queries sent since, minus those that have
	// ended since; at least own. It has a meaning only while the report counts.
	level      uint64
	isReported bool
	reportedAt policy.Instant
	// latencyUS is the mean latency in microseconds, from 1 up; 0 if none is known.
	latencyUS uint32
	// reportsLatency is whether the mean is of reported latencies. Those that this client measures
	// move it only once none has been reported for a second.
	reportsLatency    bool
	latencyReportedAt policy.Instant
}

func (r *row) sums() sums {
	s := sums{ownUnreported: uint64(r.own)}
	if r.isReported {
		s = sums{level: r.level, ownReported: uint64(r.own)}
	}
	if latency := uint64(r.latencyUS); latency > 0 {
		s.timed = timed{
			parts: 1, level: s.level, ownUnreported: s.ownUnreported, latency: latency,
			work: s.level * latency, ownWork: s.ownUnreported * latency,
		}
	}
	return s
}

// measured takes in a latency.
func (r *row) measured(latency time.Duration) {
	us := uint32(min(max(latency.Microseconds(), 1), math.MaxUint32))
	if r.latencyUS == 0 {
		r.latencyUS = us
		return
	}
	// Steps are rounded away from zero, so that the mean reaches a lasting value.
	step := int64(us) - int64(r.latencyUS)
	switch {
	case step > 0:
		step += latencyMemory - 1
	case step < 0:
		step -= latencyMemory - 1
	}
	r.latencyUS = uint32(int64(r.latencyUS) + step/latencyMemory)
}

// sums are sums over replicas.
type sums struct {
	// level is the sum of the levels of those whose reports count.
	level uint64
	// ownReported is the number of the client's own queries in flight at those, and ownUnreported
	// that at the others.
	ownReported   uint64
	ownUnreported uint64
	// timed are sums over those whose mean latency is known.
	timed timed
}

// timed are sums over replicas whose mean latency is known, in microseconds. Works are modulo 2^64.
type timed struct {
	// parts is how many they are.
	parts, level, ownUnreported, latency uint64
	// work is level × latency, and ownWork is ownUnreported × latency.
	work, ownWork uint64
}

func (s *sums) add(other sums) {
	s.level += other.level
	s.ownReported += other.ownReported
	s.ownUnreported += other.ownUnreported
	s.timed.parts += other.timed.parts
	s.timed.level += other.timed.level
	s.timed.ownUnreported += other.timed.ownUnreported
	s.timed.latency += other.timed.latency
	s.timed.work += other.timed.work
	s.timed.ownWork += other.timed.ownWork
}

func (s *sums) subtract(other sums) {
	s.level -= other.level
	s.ownReported -= other.ownReported
	s.ownUnreported -= other.ownUnreported
	s.timed.parts -= other.timed.parts
	s.timed.level -= other.timed.level
	s.timed.ownUnreported -= other.timed.ownUnreported
	s.timed.latency -= other.timed.latency
	s.timed.work -= other.timed.work
	s.timed.ownWork -= other.timed.ownWork
}

// load returns the load, where all are the sums over all replicas.
func (s *sums) load(all *sums) uint64 {
	return s.level + all.scaled(s.ownUnreported)
}

// scaled returns what the client's own queries at unreported replicas count, where these are the
// sums over all.
func (s *sums) scaled(own uint64) uint64 {
	if own == 0 {
		return 0
	}
	return ints.MulDiv(own, s.level+1, s.ownReported+1)
}

// delays are the expected delays of all parts, from which caps follow.
type delays struct {
	// all is the sum of (load + 1) × latency, in microseconds.
	all uint64
	// usualUS is the latency of a part of which none is known.
	usualUS uint64
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
	if r != nil {
		if of := l.of(r.server); of != nil {
			of.subtract(r.sums())
			l.all.subtract(r.sums())
		}
	}
	return r
}

func (l *loads) put(r *row) {
	if of := l.of(r.server); of != nil {
		of.add(r.sums())
		l.all.add(r.sums())
	}
}

// of returns the sums of a server; nil if there is none, or if it is unplaced.
func (l *loads) of(server uint32) *sums {
	if uint64(server) < uint64(len(l.servers)) {
		return &l.servers[server]
	}
	return nil
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

func (l *loads) reported(now policy.Instant, replica policy.ReplicaID, report *policy.LoadReport) {
	if r := l.take(replica); r != nil {
		r.level = uint64(max(report.RIF, r.own))
		r.isReported, r.reportedAt = true, now
		if report.Latency > 0 {
			if !r.reportsLatency {
				r.reportsLatency, r.latencyUS = true, 0
			}
			r.latencyReportedAt = now
			r.measured(report.Latency)
		}
		l.put(r)
	}
}

// answered takes in the latency of a query of this client, unless the replica has just reported
// one.
func (l *loads) answered(now policy.Instant, replica policy.ReplicaID, latency time.Duration) {
	r := l.rows.Find(replica)
	if r == nil {
		return
	}
	age := ints.Sub(uint64(now), uint64(r.latencyReportedAt))
	if !r.reportsLatency || age >= reportAgeNS {
		l.take(replica)
		r.measured(latency)
		l.put(r)
	}
}

// siblingsSent counts queries of other clients until the replica reports again.
func (l *loads) siblingsSent(replica policy.ReplicaID, queries uint32) {
	if r := l.take(replica); r != nil {
		r.level = ints.Add(r.level, uint64(queries))
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
		r.level--
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
	if of := l.of(server); of != nil {
		return of.load(&l.all)
	}
	return 0
}

// delays returns the expected delays as of now.
func (l *loads) delays() delays {
	usualUS := uint64(1)
	if timed := &l.all.timed; timed.parts > 0 {
		usualUS = timed.latency / timed.parts
	}
	return delays{all: l.delay(&l.all, l.parts, usualUS), usualUS: usualUS}
}

// delay returns the sum of (load + 1) × latency over this many parts with these sums.
func (l *loads) delay(of *sums, parts, usualUS uint64) uint64 {
	timed, all := &of.timed, &l.all
	delay := ints.Add(ints.Add(timed.work, timed.latency), all.scaled(timed.ownWork))
	if timed.parts == parts {
		return delay
	}
	untimed := of.level - timed.level + all.scaled(of.ownUnreported-timed.ownUnreported) +
		ints.Sub(parts, timed.parts)
	return ints.Add(delay, ints.Mul(untimed, usualUS))
}

// capOf returns the load at which a server with this many parts is at its cap. It is absent if
// there is no other server, or if the factor is 0, which is no bound.
func (l *loads) capOf(
	server, weight uint32, factor policy.Millionths, by *delays,
) policy.Optional[uint64] {
	of, parts := l.of(server), uint64(weight)
	others := ints.Sub(l.parts, parts)
	if of == nil || others == 0 || factor == 0 {
		return policy.Optional[uint64]{}
	}
	delay := ints.Sub(by.all, l.delay(of, parts, by.usualUS))
	delay = ints.MulDiv(delay, uint64(factor), uint64(policy.One)*others)
	// parts × delay / latency, where the latency is the mean of the parts. An idle server keeps its
	// keys, however slow it is.
	latency := of.timed.latency + ints.Sub(parts, of.timed.parts)*by.usualUS
	return policy.Some(max(ints.Mul(delay, parts*parts)/max(latency, 1), 1))
}

// usualCap returns the load at which a server is at its cap if it has one part, the usual latency,
// and no more load than the others.
func (l *loads) usualCap(factor policy.Millionths) policy.Optional[uint64] {
	if l.parts < 2 || factor == 0 {
		return policy.Optional[uint64]{}
	}
	by := l.delays()
	delay := ints.MulDiv(by.all, uint64(factor), uint64(policy.One)*l.parts)
	return policy.Some(max(delay/max(by.usualUS, 1), 1))
}
