package health

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// reference is what a replica is compared with: what the other replicas show.
type reference struct {
	// success is their success rate, in millionths.
	success policy.Optional[uint32]
	// shown is how many queries they have had, and how many of these failed.
	shown sample
	// latency is the recent latency of their good answers, in nanoseconds like all that follow.
	latency policy.Optional[uint64]
	// pace is latency, or the time for which they have kept queries waiting without an answer, if
	// that is longer.
	pace policy.Optional[uint64]
	// peak is their longest recent good answer.
	peak policy.Optional[uint64]
	// unhurriedNS is the latency of good answers when the fleet was least busy.
	unhurriedNS uint64
}

// others holds a value of each replica, and finds medians with any one value left out. Only values
// in the middle are needed, so not all is sorted.
type others[T cmp.Ordered] struct {
	values []T
	// median is that of all values, the lower one of two.
	median policy.Optional[T]
	// low and high are the medians without a large value and without a small one. There are none
	// with fewer than two values.
	low, high T
	hasTwo    bool
}

// reserve makes room for a value of each of that many replicas.
func (o *others[T]) reserve(replicas int) {
	o.values = slices.Grow(o.values, max(0, replicas-len(o.values)))
}

func (o *others[T]) clear() { *o = others[T]{values: o.values[:0]} }

// add adds a value if it is known. It counts from the next settle on.
func (o *others[T]) add(value policy.Optional[T]) {
	if value.Known {
		o.values = append(o.values, value.Value)
	}
}

// settle finds the values in the middle.
func (o *others[T]) settle() {
	*o = others[T]{values: o.values}
	switch n := len(o.values); n {
	case 0:
	case 1:
		o.median = policy.Some(o.values[0])
	default:
		middle := (n - 2) / 2
		selectNth(o.values, middle)
		o.low, o.high, o.hasTwo = o.values[middle], slices.Min(o.values[middle+1:]), true
		o.median = policy.Some(o.low)
		if n%2 == 1 {
			o.median = policy.Some(o.high)
		}
	}
}

// upperMedian returns the median of all, the upper one of two.
func (o *others[T]) upperMedian() policy.Optional[T] {
	if o.hasTwo {
		return policy.Some(o.high)
	}
	return o.median
}

// medianWithout returns the median of all without the value own, or of all if that is unknown; the
// lower one of two.
func (o *others[T]) medianWithout(own policy.Optional[T]) policy.Optional[T] {
	switch {
	case !own.Known:
		return o.median
	case !o.hasTwo:
		return policy.Optional[T]{}
	case own.Value <= o.low:
		// Without a value up to the lower middle one, the upper middle one is the median.
		return policy.Some(o.high)
	default:
		return policy.Some(o.low)
	}
}

// selectNth moves values so that the one at n is where it would be if all were sorted, with none
// greater before it and none less after it.
func selectNth[T cmp.Ordered](values []T, n int) {
	// Each round halves what is left if the values are in no order against it. Enough rounds are
	// allowed for that, and what is left then is sorted.
	for rounds := 2 * bits.Len(uint(len(values))); rounds > 0 && len(values) > 16; rounds-- {
		pivot := middleOf(values[0], values[len(values)/2], values[len(values)-1])
		low, high := 0, len(values)-1
		for low <= high {
			for values[low] < pivot {
				low++
			}
			for values[high] > pivot {
				high--
			}
			if low <= high {
				values[low], values[high] = values[high], values[low]
				low++
				high--
			}
		}
		// Between high and low, there are only values that equal the pivot.
		switch {
		case n <= high:
			values = values[:high+1]
		case n >= low:
			values, n = values[low:], n-low
		default:
			return
		}
	}
	slices.Sort(values)
}

func middleOf[T cmp.Ordered](a, b, c T) T { return max(min(a, b), min(max(a, b), c)) }

const (
	// unhurriedSlotNS is how long a slot of unhurried is, and unhurriedSlots how many there are: a
	// minute.
	unhurriedSlotNS = 10_000_000_000
	unhurriedSlots  = 6
	// unhurriedLooks is the number of samples in one mean: one second of them.
	unhurriedLooks = 10
)

// unhurried is the fleet's latency when it was least busy within the last minute. The cost of a
// failure is counted in it, so that failures do not become expensive in a busy fleet. It is the
// minimum of means over a second, because the minimum of single samples would be luck.
type unhurried struct {
	// leastNS is the minimum of each slot, the current one first.
	leastNS [unhurriedSlots]uint64
	// slot is the number of the current slot.
	slot  uint64
	looks uint64
	// sumHigh and sumLow are the sum of the samples, in 128 bits.
	sumHigh, sumLow uint64
}

func newUnhurried() unhurried {
	var u unhurried
	for slot := range u.leastNS {
		u.leastNS[slot] = math.MaxUint64
	}
	return u
}

// note takes in the fleet's current latency, and returns its best one; 0 if it is unknown.
func (u *unhurried) note(now policy.Instant, latency policy.Optional[uint64]) uint64 {
	slot := uint64(now) / unhurriedSlotNS
	if passed := ints.Sub(slot, u.slot); passed > 0 {
		kept := copy(u.leastNS[min(passed, unhurriedSlots):], u.leastNS[:])
		for slot := range u.leastNS[:unhurriedSlots-kept] {
			u.leastNS[slot] = math.MaxUint64
		}
		u.slot = slot
	}
	if latency.Known {
		u.looks++
		var carry uint64
		u.sumLow, carry = bits.Add64(u.sumLow, latency.Value, 0)
		u.sumHigh += carry
	}
	meanNS := uint64(0)
	if u.looks > 0 {
		// The sum of n numbers of 64 bits, divided by n, has 64 bits.
		meanNS, _ = bits.Div64(u.sumHigh, u.sumLow, u.looks)
	}
	if u.looks >= unhurriedLooks {
		u.leastNS[0] = min(u.leastNS[0], meanNS)
		u.looks, u.sumHigh, u.sumLow = 0, 0, 0
	}
	if least := slices.Min(u.leastNS[:]); least < math.MaxUint64 {
		return least
	}
	return meanNS
}
