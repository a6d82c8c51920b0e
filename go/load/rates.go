package load

import (
	"math"
	"math/bits"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const (
	// RatesWindow is the span of [Rates], or all readings while they span less: long enough to even
	// out the cost of queries, short enough to follow a neighbour that stays.
	RatesWindow = 4 * time.Second
	// RatesStep is the shortest interval between two readings of [Rates].
	RatesStep = time.Second

	rateReadings = 5
)

// Totals are what a replica has done since its start.
type Totals struct {
	// Finished is the number of queries that were answered, with success or with an error.
	Finished uint64
	// Failed is how many of these were answered with an error.
	Failed uint64
	// CPU is the CPU time used; absent if it is not measured.
	CPU policy.Optional[time.Duration]
}

// Rates are how busy a replica has been lately: queries finished per second, the share that failed,
// and the CPU in use. They are differences of totals that are read now and then. Rates have no
// clock and are not safe for concurrent use.
type Rates struct {
	millicores uint32
	// A ring: the oldest reading is replaced next.
	readings  [rateReadings]rateReading
	next, len int
	// As of the last reading. Reports are many times as frequent as readings.
	queryRate, errors, cpu policy.Optional[uint32]
}

type rateReading struct {
	at     policy.Instant
	totals Totals
}

// NewRates returns the rates of a replica that is allocated millicores / 1,000 cores, of which its
// CPU use is a share. 0 counts as 1.
func NewRates(millicores uint32) *Rates { return &Rates{millicores: max(millicores, 1)} }

// Due reports whether a reading is due; check it first where reading totals is expensive.
func (r *Rates) Due(now policy.Instant) bool {
	return r.len == 0 || nsSince(now, r.back(0).at) >= uint64(RatesStep)
}

// Read takes a reading. One that is not due is ignored.
func (r *Rates) Read(now policy.Instant, totals Totals) {
	if !r.Due(now) {
		return
	}
	r.readings[r.next] = rateReading{now, totals}
	r.next = (r.next + 1) % rateReadings
	r.len = min(r.len+1, rateReadings)
	r.compute()
}

// Fill fills in the report's query rate, error share and CPU use. Unknown values are absent, as all
// are until the second reading. Without queries the error share is 0.
func (r *Rates) Fill(report *policy.LoadReport) {
	report.QueryRateMillis, report.ErrorMillionths, report.CPUMillionths = r.queryRate, r.errors, r.cpu
}

func (r *Rates) compute() {
	r.queryRate, r.errors, r.cpu = policy.Optional[uint32]{}, policy.Optional[uint32]{}, policy.Optional[uint32]{}
	to := r.back(0)
	from := r.before(func(*rateReading) bool { return true })
	if from == nil {
		return
	}
	finished := ints.Sub(to.totals.Finished, from.totals.Finished)
	failed := ints.Sub(to.totals.Failed, from.totals.Failed)
	r.queryRate = ratio(finished, 1_000*nsPerSecond, uint128{lo: nsSince(to.at, from.at)})
	r.errors = ratio(failed, 1_000_000, uint128{lo: max(finished, 1)})
	r.cpu = r.computeCPU(to)
}

// computeCPU returns the CPU use up to the newest reading, from the first one that has it.
func (r *Rates) computeCPU(to *rateReading) policy.Optional[uint32] {
	from := r.before(func(it *rateReading) bool { return it.totals.CPU.Known })
	if from == nil || !to.totals.CPU.Known {
		return policy.Optional[uint32]{}
	}
	hi, lo := bits.Mul64(nsSince(to.at, from.at), uint64(r.millicores))
	return ratio(spanBetween(from.totals.CPU.Value, to.totals.CPU.Value), 1_000_000*1_000, uint128{hi, lo})
}

// back returns the reading this many before the newest.
func (r *Rates) back(steps int) *rateReading {
	return &r.readings[(r.next+rateReadings-1-steps)%rateReadings]
}

// before returns the oldest usable reading before the newest and within the window: older ones are
// from before a pause. After a pause, it is the last reading before that. It returns nil if there
// is none.
func (r *Rates) before(usable func(*rateReading) bool) *rateReading {
	newest := r.back(0)
	var from *rateReading
	for steps := 1; steps < r.len; steps++ {
		reading := r.back(steps)
		if !usable(reading) {
			continue
		}
		if from != nil && nsSince(newest.at, reading.at) > uint64(RatesWindow) {
			break
		}
		from = reading
	}
	if from == nil || newest.at <= from.at {
		return nil
	}
	return from
}

// ratio returns part · scale / whole, rounded down and at most 2^32 − 1; it is absent for a whole
// of 0.
func ratio(part, scale uint64, whole uint128) policy.Optional[uint32] {
	hi, lo := bits.Mul64(part, scale)
	switch {
	case whole == uint128{}:
		return policy.Optional[uint32]{}
	case whole.hi > 0:
		// Only after a pause of hours on a thousand cores.
		return policy.Some(uint32(min(uint128{hi, lo}.divWide(whole), math.MaxUint32)))
	case hi >= whole.lo:
		return policy.Some[uint32](math.MaxUint32)
	}
	quotient, _ := bits.Div64(hi, lo, whole.lo)
	return policy.Some(uint32(min(quotient, math.MaxUint32)))
}
