package health

import (
	"math"
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

func badSince(w *window, bucket uint64) uint32 {
	sum := w.recent(bucket, math.MaxUint32)
	return sum.bad
}

func TestOldBucketsExpireWithAndWithoutTraffic(t *testing.T) {
	var w window
	expect := func(bucket uint64, bad uint32) {
		t.Helper()
		if found := badSince(&w, bucket); found != bad {
			t.Errorf("%d failures up to bucket %d, not %d", found, bucket, bad)
		}
	}
	w.at(3).bad = 7
	expect(3, 7)
	expect(2+windowBuckets, 7)
	expect(3+windowBuckets, 0) // by time alone
	w.at(2+windowBuckets).bad++
	expect(2+windowBuckets, 8)
	w.at(3+windowBuckets).bad++
	expect(3+windowBuckets, 2) // its place is taken
	w.at(1_000).bad++
	expect(1_000, 1) // a long pause empties all
	w.at(990).bad++
	expect(1_000, 2) // a step back is none
}

func TestWithdrawnSuccessIsRemovedFromItsBucket(t *testing.T) {
	var w window
	w.at(3).good = 2
	w.at(5).good = 1
	w.takeBack(3)
	w.takeBack(4)
	w.takeBack(9)
	if sum := w.recent(5, math.MaxUint32); sum.good != 2 {
		t.Errorf("%d are left, not 2", sum.good)
	}
	w.at(3 + windowBuckets).good = 1
	w.takeBack(3)
	if sum := w.recent(3+windowBuckets, math.MaxUint32); sum.good != 2 {
		t.Errorf("another bucket's success was taken: %d are left, not 2", sum.good)
	}
}

func TestRecentSumsTheNewestBucketsUpToEnough(t *testing.T) {
	var w window
	for bucket := range uint64(5) {
		w.at(bucket).bad = 10
	}
	w.at(5).good = 10
	w.at(6).good = 10
	for _, c := range []struct{ enough, good, bad uint32 }{
		{20, 20, 0}, {21, 20, 10}, {math.MaxUint32, 20, 50},
	} {
		if sum := w.recent(6, c.enough); sum.good != c.good || sum.bad != c.bad {
			t.Errorf("%d are enough: %+v", c.enough, sum)
		}
	}
}

func TestLongestLatencyIsKeptForTenToTwentySeconds(t *testing.T) {
	for _, c := range []struct{ notedMS, untilMS uint64 }{
		{0, 20_000}, {9_999, 20_000}, {10_000, 30_000},
	} {
		var p peaks
		longestAt := func(ms, latencyNS uint64) uint64 {
			p.tick(policy.Instant(ms * 1_000_000))
			p.note(latencyNS)
			return p.longest()
		}
		longestAt(c.notedMS, 7)
		for _, step := range []struct{ ms, latencyNS, longest uint64 }{
			{c.untilMS - 10_000, 3, 7}, {c.untilMS - 1, 3, 7}, {c.untilMS, 2, 3},
			{c.untilMS + 20_000, 1, 1}, // a long pause
		} {
			if found := longestAt(step.ms, step.latencyNS); found != step.longest {
				t.Errorf("noted at %d ms: %d at %d ms, not %d", c.notedMS, found, step.ms, step.longest)
			}
		}
	}
}
