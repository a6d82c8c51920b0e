package policy

import (
	"math"
	"slices"
)

const (
	// valuesMemory is the number of values that are remembered.
	valuesMemory = 64
	// valueMax counts for larger values, so that their sum does not overflow.
	valueMax = math.MaxUint64 >> 7
)

// recentValues are the last 64 values, and their sum.
type recentValues struct {
	ring [valuesMemory]uint64
	// recorded counts values so far. The next one goes to the place of this number in the ring.
	recorded uint64
	// sum is that of the values, each as at most valueMax.
	sum uint64
}

func (v *recentValues) record(value uint64) {
	at := &v.ring[v.recorded%valuesMemory]
	v.sum += min(value, valueMax) - min(*at, valueMax)
	*at = value
	v.recorded++
}

// drawn returns one of the values, drawn. Without values it is 0, without a draw.
func (v *recentValues) drawn(draw Draw) uint64 {
	if v.recorded == 0 {
		return 0
	}
	return v.ring[Below(draw, uint32(min(v.recorded, valuesMemory)))]
}

// mean returns the mean, rounded to the nearest. It is 0 if there are no values.
func (v *recentValues) mean() uint64 {
	count := min(max(v.recorded, 1), valuesMemory)
	return (v.sum + count/2) / count
}

// ordinary returns the mean of the values, of which the highest fifth count as the highest of the
// others, and that one: one replica that is overloaded or lies does not stand for all.
func (v *recentValues) ordinary() (most, mean uint64) {
	sorted := v.ring
	values := sorted[:min(v.recorded, valuesMemory)]
	slices.Sort(values)
	if len(values) == 0 {
		return 0, 0
	}
	most = min(values[len(values)*4/5], valueMax)
	sum := uint64(0)
	for _, value := range values {
		sum += min(value, most)
	}
	count := uint64(len(values))
	return most, (sum + count/2) / count
}
