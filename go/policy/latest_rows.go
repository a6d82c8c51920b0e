package policy

import "slices"

// newestMax is the number of newest reports that are compared. In a large fleet each client thereby
// compares other ones.
const newestMax = orderedMax

// row is the latest report of a replica.
type row struct {
	replica    ReplicaID
	receivedAt Instant
	// latencyNS is 0 if unknown.
	latencyNS uint64
	// others is the number of queries that other clients have in flight: the reported RIF minus what
	// this client had. For an unprobed replica it is an estimate.
	others uint32
	// own is the number of queries that this client had in flight then.
	own   uint32
	local bool
	// weight is what the replica counts with since this report.
	weight weight
}

// othersMin returns the fewest queries that other clients count with.
func (r *row) othersMin() uint32 {
	if r.local {
		return 0
	}
	return r.others
}

// latestRows are the latest report of each replica, in one slice whose first rows are the newest: a
// choice compares those, and looks at no others.
type latestRows struct {
	// all has the newest rows first, in no order; neither are the others.
	all []row
	// places has where the row of each replica is.
	places ReplicaMap[int32]
	// order has the newest rows by age, and of equal age by place.
	order newestOrder
	// newestSince: none of the newest rows is older. It is checked before a search.
	newestSince Instant
}

// reserve makes space for a report of this replica and of those with lower indexes, so that setting
// them later does not allocate.
func (r *latestRows) reserve(replica ReplicaID) {
	r.places.Reserve(replica)
	r.all = slices.Grow(r.all, max(replica.Index()+1-len(r.all), 0))
}

// newest returns the newest reports.
func (r *latestRows) newest() []row { return r.all[:min(len(r.all), newestMax)] }

// find returns the report of a replica, or nil.
func (r *latestRows) find(replica ReplicaID) *row {
	if place := r.places.Find(replica); place != nil {
		return &r.all[*place]
	}
	return nil
}

// insert makes this report the latest of its replica, and one of the newest. It is not older than
// any other. It returns whether it replaces one.
func (r *latestRows) insert(report row) bool {
	found := r.places.Find(report.replica)
	var place int
	if found != nil {
		place = int(*found)
	} else {
		place = r.add(report.replica)
	}
	if place >= newestMax {
		oldest := r.order.oldest(newestMax)
		r.move(oldest, place)
		r.places.Set(report.replica, int32(oldest))
		place = oldest
		// The oldest is the last in order: it is taken out by counting one less.
	} else {
		r.order.take(place)
	}
	r.all[place] = report
	r.putInOrder(place, len(r.newest())-1)
	return found != nil
}

// add adds a row for a replica, for its first report. It returns the row's place.
func (r *latestRows) add(replica ReplicaID) int {
	place := len(r.all)
	r.all = append(r.all, row{replica: replica})
	r.places.Set(replica, int32(place))
	if place < newestMax {
		r.putInOrder(place, place)
	}
	return place
}

// move copies a row to another place.
func (r *latestRows) move(from, to int) {
	r.all[to] = r.all[from]
	r.places.Set(r.all[to].replica, int32(to))
}

// putInOrder puts one of the newest rows in order, among this many that are.
func (r *latestRows) putInOrder(place, count int) {
	receivedAt := r.all[place].receivedAt
	r.order.add(place, count, func(other int) bool {
		at := r.all[other].receivedAt
		return at > receivedAt || at == receivedAt && other > place
	})
}

// putAllInOrder puts the newest rows in order after they have moved.
func (r *latestRows) putAllInOrder() {
	for place := range r.newest() {
		r.putInOrder(place, place)
	}
}

func (r *latestRows) remove(replica ReplicaID) {
	found, known := r.places.Remove(replica)
	if !known {
		return
	}
	place := int(found)
	r.newestSince = 0
	if place < newestMax && len(r.all) > newestMax {
		next := newestMax
		for other := range r.all {
			if other > next && r.all[other].receivedAt >= r.all[next].receivedAt {
				next = other
			}
		}
		r.move(next, place)
		place = next
	}
	last := len(r.all) - 1
	if place < last {
		r.move(last, place)
	}
	r.all = r.all[:last]
	r.putAllInOrder()
}

// expire removes the reports that were received before since, if there is one among the newest. It
// returns how many.
func (r *latestRows) expire(since Instant) int {
	if since <= r.newestSince {
		return 0
	}
	oldest := end
	for place := range r.newest() {
		oldest = min(oldest, r.all[place].receivedAt)
	}
	if len(r.all) == 0 {
		oldest = since
	}
	r.newestSince = max(oldest, since)
	if oldest >= since {
		return 0
	}
	before := len(r.all)
	fresh := r.all[:0]
	for _, row := range r.all {
		if row.receivedAt < since {
			r.places.Remove(row.replica)
			continue
		}
		r.places.Set(row.replica, int32(len(fresh)))
		fresh = append(fresh, row)
	}
	r.all = fresh
	r.putAllInOrder()
	return before - len(r.all)
}
