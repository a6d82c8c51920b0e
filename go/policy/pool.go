package policy

import (
	"slices"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// pooledReport is a report in the pool.
type pooledReport struct {
	replica ReplicaID
	// rif is as reported, plus one for each query sent there since.
	rif uint32
	// usesLeft is at least 1; a report whose uses are spent is gone.
	usesLeft uint32
	// latencyNS is 0 if unknown.
	latencyNS uint64
	// receivedAt is by the client's own clock, since a replica's clock may be wrong.
	receivedAt Instant
	local      bool
}

// inserted is what happened to a report that was inserted.
type inserted uint8

const (
	// insertedNew: it took a free place.
	insertedNew inserted = iota
	// insertedReplaced: it took the place of its replica's older report.
	insertedReplaced
	// insertedEvicted: it took the place of the oldest report.
	insertedEvicted
)

// pool is the probe pool: a limited number of reports, one for each replica. It keeps order and
// bounds. The rule of choice and the policy around it decide which report is chosen, charged or
// removed.
type pool struct {
	// reports are in order of age, oldest first.
	reports  []pooledReport
	capacity int
	// knownNS is a buffer to find a median in.
	knownNS []uint64
}

func newPool(capacity uint16) pool {
	return pool{
		reports:  make([]pooledReport, 0, capacity),
		capacity: int(capacity),
		knownNS:  make([]uint64, 0, capacity),
	}
}

// insert puts a report in as the newest.
func (p *pool) insert(report pooledReport) inserted {
	found := insertedNew
	if p.removeReplica(report.replica) {
		found = insertedReplaced
	} else if len(p.reports) == p.capacity {
		p.removeAt(0)
		found = insertedEvicted
	}
	p.reports = append(p.reports, report)
	return found
}

// removeReplica removes a replica's report. It returns true if there was one.
func (p *pool) removeReplica(replica ReplicaID) bool {
	index := p.position(replica)
	if index >= 0 {
		p.removeAt(index)
	}
	return index >= 0
}

func (p *pool) removeAt(index int) { p.reports = slices.Delete(p.reports, index, index+1) }

// position returns the index of a replica's report, or −1.
func (p *pool) position(replica ReplicaID) int {
	for index := range p.reports {
		if p.reports[index].replica == replica {
			return index
		}
	}
	return -1
}

// expire removes the reports that have reached this age. It returns their number.
func (p *pool) expire(now Instant, ageMaxNS uint64) int {
	expired := 0
	for expired < len(p.reports) && now.nsSince(p.reports[expired].receivedAt) >= ageMaxNS {
		expired++
	}
	p.reports = slices.Delete(p.reports, 0, expired)
	return expired
}

// compensate charges queries to the replica of the report at index.
func (p *pool) compensate(index int, queries uint32) {
	p.reports[index].rif = ints.Add(p.reports[index].rif, queries)
}

// spend spends one use of the report at index. It returns true if it was the last one, so that the
// report is gone.
func (p *pool) spend(index int) bool {
	report := &p.reports[index]
	report.usesLeft--
	if report.usesLeft > 0 {
		return false
	}
	p.removeAt(index)
	return true
}

// usable returns how many reports the query can use: those of replicas that it may go to.
func (p *pool) usable(query *Query) int {
	if query.allowsAll() {
		return len(p.reports)
	}
	usable := 0
	for index := range p.reports {
		usable += number(query.Allows(p.reports[index].replica))
	}
	return usable
}

// best returns the best report that the query can use, by the hot–cold rule with this limit.
func (p *pool) best(query *Query, limit uint64, draw Draw) (ranking, bool) {
	standInNS := p.standInNS()
	return best(len(p.reports), func(index int) (place, bool) {
		report := &p.reports[index]
		return hotColdPlace(report.load(standInNS), limit).clamped(poolPlaces), query.Allows(report.replica)
	}, draw)
}

// worst returns the index of the worst report in the same order, or −1.
func (p *pool) worst(limit uint64, draw Draw) int {
	standInNS := p.standInNS()
	return worst(len(p.reports), func(index int) (place, bool) {
		return hotColdPlace(p.reports[index].load(standInNS), limit).clamped(poolPlaces), true
	}, draw)
}

// standInNS returns the stand-in for an unknown latency: the median of the known ones in the pool.
func (p *pool) standInNS() uint64 {
	p.knownNS = p.knownNS[:0]
	for index := range p.reports {
		if latencyNS := p.reports[index].latencyNS; latencyNS > 0 {
			p.knownNS = append(p.knownNS, latencyNS)
		}
	}
	if len(p.knownNS) == len(p.reports) {
		return 0 // not used
	}
	return standInNS(p.knownNS)
}

func (r *pooledReport) load(standInNS uint64) load {
	of := load{rif: uint64(r.rif), latencyNS: r.latencyNS}
	if of.latencyNS == 0 {
		of.latencyNS = standInNS
	}
	return of
}

func (r *pooledReport) view(now Instant, limit Optional[uint32]) PooledView {
	return PooledView{
		Replica:  r.replica,
		RIF:      r.rif,
		Latency:  time.Duration(r.latencyNS),
		Age:      now.Since(r.receivedAt),
		UsesLeft: r.usesLeft,
		Local:    r.local,
		Hot:      limit.Known && r.rif >= limit.Value,
	}
}
