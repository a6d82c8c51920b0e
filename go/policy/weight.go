package policy

import (
	"math"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// unitBits: shares and factors are in parts of a power of two, so that a pick needs shifts in
	// place of divisions.
	unitBits = 20
	unit     = 1 << unitBits
	// oneRIF is one request in flight, in thousandths, as capacities are reported.
	oneRIF = 1_000
	// usableCapacity is the usable part of a capacity, in thousandths: a seventh is kept in reserve
	// for chance.
	usableCapacity = 850
	// crowdingFactor: with all of the capacity in use, a query is assumed to take this much longer
	// than on an idle replica. Of two replicas without queues, the emptier one is better.
	crowdingFactor = unit * 3 / 10
	// overloadFactor: beyond capacity, a query is assumed to take this much longer for each
	// capacity's worth of others. It waits for them, and they wait for it, so it costs more than its
	// own time, and the more the more queries share the replica.
	overloadFactor = unit * 5 / 2
	// inUseMax is the largest share of capacity in use; higher ones count as this. Below it nothing
	// overflows.
	inUseMax = unit << 12
	// inFlightMax is the most requests in flight, in 1/1024. More count as this, so that their share
	// does not overflow.
	inFlightMax = math.MaxUint32
)

// weight is what a replica counts with since its latest report.
type weight struct {
	// alone is the time of a query alone, as a share of the mean.
	alone uint64
	// request is the share of the usable capacity that one request takes, in 1/1024. While no
	// capacity is known, all of it.
	request uint64
	// overload is how much longer a query takes for each capacity's worth of others.
	overload uint64
	// capacity is in thousandths of a request.
	capacity uint64
	// scoreMin is the lowest score that it can have.
	scoreMin uint64
}

// weightWithCapacity returns the weight of a replica of this capacity, in thousandths of a request.
func weightWithCapacity(capacity, alone uint64) weight {
	// A replica that runs one query at a time delays no other query.
	shares := max(capacity, oneRIF)
	return weight{
		alone:    alone,
		request:  unit << fineBits * oneRIF / usableCapacity * oneRIF / shares,
		overload: unit + (overloadFactor-unit)*(shares-oneRIF)/shares,
		capacity: capacity,
	}
}

// weightWithoutCapacity returns the weight of a replica in a fleet where none reports a capacity.
func weightWithoutCapacity(alone uint64) weight {
	return weight{alone: alone, request: unit << fineBits, capacity: oneRIF}
}

// share returns the share of the usable capacity that these requests take. They are in 1/1024.
func (w *weight) share(requests uint64) uint64 {
	return min(requests, inFlightMax) * w.request >> (2 * fineBits)
}

// score returns the time that a query takes and costs others, as a share of the mean time alone, in
// units of units. While no capacity is known, it is in proportion to what is in use.
func (w *weight) score(inUse uint64, byCapacity bool) uint64 {
	if byCapacity {
		inUse = w.timesLonger(inUse)
	}
	return ints.Mul(inUse, w.alone)
}

// timesLonger returns the factor by which a query takes longer than alone, and by which it makes
// others take longer, with this share of the usable capacity in use.
func (w *weight) timesLonger(inUse uint64) uint64 {
	inUse = min(inUse, inUseMax)
	crowding := unit + inUse*crowdingFactor>>unitBits
	if inUse <= unit {
		return crowding
	}
	waiting := unit + (inUse-unit)*w.overload>>unitBits
	longer := waiting * crowding >> unitBits
	if w.capacity >= oneRIF {
		return longer
	}
	return mulShift(longer, w.behind(inUse), unitBits)
}

// behind returns the factor by which a query takes longer than its cost behind the others that make
// up this share, with a capacity below one. The earlier queries take longer than their cost, and
// this one does not: with none before it, quota has accumulated.
func (w *weight) behind(inUse uint64) uint64 {
	withThis := max(inUse*usableCapacity/oneRIF, unit)
	before := ints.MulDiv(withThis-unit, oneRIF, w.capacity)
	return ints.MulDiv(ints.Add(before, unit), unit, withThis)
}
