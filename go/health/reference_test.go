package health

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

func othersOf(values ...uint32) *others[uint32] {
	var o others[uint32]
	for _, value := range values {
		o.add(policy.Some(value))
	}
	o.settle()
	return &o
}

// lowerMedian is the median by its definition.
func lowerMedian(values []uint32) policy.Optional[uint32] {
	if len(values) == 0 {
		return policy.Optional[uint32]{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return policy.Some(sorted[(len(sorted)-1)/2])
}

func TestMedianOfOthersLeavesOutOneValue(t *testing.T) {
	draws := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		// Few different values, so that many are equal.
		values := make([]uint32, draws.IntN(80))
		for i := range values {
			values[i] = draws.Uint32N(1 + uint32(len(values)))
		}
		all := othersOf(values...)
		if median := lowerMedian(values); all.median != median {
			t.Fatalf("median of %v: %v, not %v", values, all.median, median)
		}
		for i, own := range values {
			rest := slices.Delete(slices.Clone(values), i, i+1)
			if found := all.medianWithout(policy.Some(own)); found != lowerMedian(rest) {
				t.Fatalf("median of %v without %d: %v, not %v", values, own, found, lowerMedian(rest))
			}
		}
	}
}

func TestUpperMedianIsTheHigherOneOfTwo(t *testing.T) {
	for _, c := range []struct {
		values []uint32
		upper  policy.Optional[uint32]
	}{
		{nil, policy.Optional[uint32]{}},
		{[]uint32{9}, policy.Some[uint32](9)},
		{[]uint32{7, 1, 3}, policy.Some[uint32](3)},
		{[]uint32{4, 1, 3, 2}, policy.Some[uint32](3)},
	} {
		if found := othersOf(c.values...).upperMedian(); found != c.upper {
			t.Errorf("%v: %v", c.values, found)
		}
	}
}

func TestOthersForgetWhatIsCleared(t *testing.T) {
	o := othersOf(1, 2, 3)
	o.clear()
	o.add(policy.Optional[uint32]{})
	o.settle()
	if o.median.Known || o.medianWithout(policy.Some[uint32](1)).Known || o.upperMedian().Known {
		t.Errorf("something is known: %+v", o)
	}
	none := policy.Optional[uint32]{}
	if found := othersOf(6, 7).medianWithout(none); found != policy.Some[uint32](6) {
		t.Errorf("without none of two: %v", found)
	}
}

func TestBestLatencyIsTheLeastMeanOfASecondWithinAMinute(t *testing.T) {
	u := newUnhurried()
	note := func(seconds int, latency ...uint64) uint64 {
		var known policy.Optional[uint64]
		if len(latency) > 0 {
			known = policy.Some(latency[0])
		}
		return u.note(policy.Instant(seconds)*1_000_000_000, known)
	}
	expect := func(name string, found, want uint64) {
		t.Helper()
		if found != want {
			t.Errorf("%s: %d, not %d", name, found, want)
		}
	}
	expect("nothing", note(0), 0)
	expect("one look is better than nothing", note(0, 40), 40)
	for range unhurriedLooks - 1 {
		note(1, 60)
	}
	expect("the mean of ten", note(1), 58)
	for _, c := range []struct {
		seconds       int
		latency, best uint64
	}{
		{10, 90, 58}, {59, 90, 58}, {60, 90, 90}, {119, 95, 90},
	} {
		for range unhurriedLooks {
			note(c.seconds, c.latency)
		}
		expect("later", note(c.seconds), c.best)
	}
	expect("one look is luck", note(119, 5), 90)
	expect("all else is forgotten", note(5_000), 5)
}
