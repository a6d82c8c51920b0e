package health

import (
	"math"
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

// recordOf returns the record of a replica with this many queries, of which some failed.
func recordOf(queries, failures int) *record {
	r := newRecord(at(0), 1)
	book(r, 0, failures, policy.OutcomeFailed)
	book(r, 0, queries-failures, policy.OutcomeSuccess)
	r.estimate(at(0), 0, whole)
	return r
}

// goodOthers returns others that do not fail.
func goodOthers(queries uint64) *reference {
	return &reference{success: policy.Some(whole), shown: sample{queries: queries}}
}

func TestASuccessRateBelow97PercentOfTheOthersIsBad(t *testing.T) {
	for usual, asGood := range map[uint32]uint32{whole: 970_000, 500_000: 485_000} {
		r, o := recordOf(400, 400), goodOthers(1_200)
		o.success = policy.Some(usual)
		for success, want := range map[uint32]bool{asGood: false, asGood - 1: true} {
			r.success = success
			if isBad(r, o) != want {
				t.Errorf("%d beside %d: bad %v", success, usual, !want)
			}
		}
		o.success = policy.Optional[uint32]{}
		if isBad(r, o) {
			t.Errorf("bad without others")
		}
	}
}

func TestEvidenceForBadIs22BitsOr10WithAReducedShare(t *testing.T) {
	// With as many queries as the others, each failure is one bit.
	for _, c := range []struct {
		failures          int
		isReduced, wanted bool
	}{{21, false, false}, {22, false, true}, {9, true, false}, {10, true, true}} {
		r := recordOf(30, c.failures)
		if c.isReduced {
			r.course.fall(at(0), byErrors, 1, 2)
		}
		if isBad(r, goodOthers(30)) != c.wanted {
			t.Errorf("%+v", c)
		}
	}
}

func TestFailuresThatAreUsualForTheOthersAreNoEvidence(t *testing.T) {
	o := goodOthers(30)
	o.success = policy.Some[uint32](800_000)
	if isBad(recordOf(30, 22), o) {
		t.Errorf("six failures of theirs do not count")
	}
}

func TestAnEjectedReplicaIsBadFiveDeviationsBelowTheOthers(t *testing.T) {
	settings := DefaultSettings()
	for _, c := range []struct {
		isOut bool
		bound uint32
	}{
		{false, 576_000}, // 776,000 − 5 · √(0.8 · 0.2 / 100)
		{true, 634_580},  // with the bound of 200 queries
	} {
		r, o := recordOf(100, 20), goodOthers(300)
		o.success = policy.Some[uint32](800_000)
		r.remember(false)
		if c.isOut {
			r.course.leave(at(0), byErrors, &settings)
		}
		for success, want := range map[uint32]bool{c.bound: false, c.bound - 1: true} {
			r.success = success
			if isBad(r, o) != want {
				t.Errorf("out %v: %d is bad: %v", c.isOut, success, !want)
			}
		}
	}
}

func TestExpectedCostIncludesRetries(t *testing.T) {
	r := recordOf(0, 0)
	r.priceNS = 20_000
	for success, want := range map[uint32]uint64{
		whole: 10_000, 500_000: 30_000, 250_000: 70_000, 0: 10_000 + 20_000*999_999,
	} {
		r.success = success
		if found := expectedNS(r, 10_000); found != want {
			t.Errorf("at %d: %d, not %d", success, found, want)
		}
	}
}

func TestShareFollowsTheCost(t *testing.T) {
	const half = whole / 2
	for priceNS, share := range map[uint64]uint32{
		0: half + whole/50, 1: half, 250: half, 251: 399_680, // half · 1,000 / 1,251
	} {
		r := recordOf(0, 0)
		r.course.fall(at(0), byErrors, 1, 2)
		// The cost is 1,000 + price · (1/0.5 − 1).
		r.others = policy.Some[uint64](1_000)
		r.success = half
		r.priceNS = priceNS
		if v := judgeBad(at(0), r, byErrors); v != stay {
			t.Errorf("verdict %d", v)
		}
		expectShare(t, &r.course, share)
	}
}

func TestOthersAreHurriedAtFourTimesTheirBestLatency(t *testing.T) {
	o := goodOthers(30)
	o.unhurriedNS = 100
	if isHurried(o) {
		t.Errorf("hurried without a latency")
	}
	for latencyNS, want := range map[uint64]bool{403: false, 404: true} {
		o.latency = policy.Some(latencyNS)
		if isHurried(o) != want {
			t.Errorf("hurried at %d: %v", latencyNS, !want)
		}
	}
}

func TestASlowReplicaLosesShareUnlessItIsNewOrTheOthersAreBusy(t *testing.T) {
	settings := DefaultSettings()
	for _, c := range []struct {
		othersNS uint64
		isNew    bool
		share    uint32
	}{{300*ms + 2, false, whole / 2}, {300*ms + 3, false, whole}, {300*ms + 2, true, whole}} {
		r := recordOf(0, 0)
		if c.isNew {
			r.startWarmUp(whole/10, at(60_000))
		}
		r.nearNS = 0
		for range 8 {
			r.answered(at(10_000), 10_000*ms, policy.OutcomeSuccess)
		}
		r.tick(at(0))
		o := goodOthers(30)
		o.latency = policy.Some(c.othersNS)
		o.unhurriedNS = 100 * ms
		judge(at(0), r, o, &settings)
		expectShare(t, &r.course, c.share)
	}
}

func TestMoreFailuresInARowAreNeededWhereTheyAreChance(t *testing.T) {
	errors := DefaultErrorSettings()
	for success, failures := range map[uint32]uint32{
		whole: 5, 990_000: 5, 900_000: 9, 500_000: 30, 277_000: 64,
		276_000: math.MaxUint32, 0: math.MaxUint32,
	} {
		if found := failuresMax(success, errors); found != failures {
			t.Errorf("at %d: %d, not %d", success, found, failures)
		}
	}
}

func TestBoundsAreMultiplesOfTheLatencyOfTheOthers(t *testing.T) {
	settings := DefaultSettings()
	for _, c := range []struct{ othersMS, warmMS, nearMS uint64 }{
		{20, 40, 100}, {25, 50, 100}, {30, 60, 120},
	} {
		r, o := recordOf(0, 0), goodOthers(30)
		o.latency = policy.Some(c.othersMS * ms)
		noteBounds(r, o, &settings)
		if r.warmNS != c.warmMS*ms || r.nearNS != c.nearMS*ms || r.failuresMax != 5 {
			t.Errorf("%+v: %d, %d, %d", c, r.warmNS, r.nearNS, r.failuresMax)
		}
	}
}

func TestAFailureCostsItsTimeAndAtLeastTwentyTimesTheBestLatency(t *testing.T) {
	settings := DefaultSettings()
	for bestNS, priceNS := range map[uint64]uint64{ms / 20: ms, ms/20 + 1: ms + 20, 0: ms} {
		r, o := recordOf(3, 2), goodOthers(30)
		o.unhurriedNS = bestNS
		noteBounds(r, o, &settings)
		if r.priceNS != priceNS {
			t.Errorf("at %d: %d, not %d", bestNS, r.priceNS, priceNS)
		}
	}
}

func TestAnEjectedReplicaGetsQueriesIfTheOthersCostMore(t *testing.T) {
	settings := DefaultSettings()
	r := recordOf(0, 0)
	r.success = whole / 2
	r.remember(false)
	r.course.leave(at(0), byErrors, &settings)
	o := goodOthers(30)
	o.unhurriedNS = 10
	// 10 + 20 · 10 · (1/0.5 − 1) = 210
	for _, c := range []struct {
		latency policy.Optional[uint64]
		want    verdict
	}{{policy.Optional[uint64]{}, stay}, {policy.Some[uint64](210), stay}, {policy.Some[uint64](211), rise}} {
		o.latency = c.latency
		if v := judge(at(0), r, o, &settings); v != c.want {
			t.Errorf("%v: verdict %d", c.latency, v)
		}
	}
}

func TestASilenceMustExceedTwiceTheLongestLatencyOfTheOthers(t *testing.T) {
	settings := DefaultSettings()
	for longestMS, silenceMS := range map[uint64]uint64{10: 100, 200: 400} {
		r, o := recordOf(0, 0), goodOthers(30)
		r.sent(at(0), false)
		r.sent(at(0), false)
		o.pace, o.peak = policy.Some[uint64](25*ms), policy.Some(longestMS*ms)
		if v := judge(at(silenceMS), r, o, &settings); v != stay {
			t.Errorf("%d ms: verdict %d too soon", longestMS, v)
		}
		if v := judge(at(silenceMS)+1, r, o, &settings); v != leaveForSilence {
			t.Errorf("%d ms: verdict %d", longestMS, v)
		}
	}
}

func TestAReturningReplicaThatFailsAgainLeavesAtOnce(t *testing.T) {
	settings := DefaultSettings()
	for why, want := range map[cause]verdict{byErrors: leaveForErrors, bySlowness: stay} {
		r := recordOf(0, 0)
		r.course.leave(at(0), why, &settings)
		r.course.comeBack(at(0))
		r.others = policy.Some[uint64](1_000)
		r.success = whole / 2
		r.priceNS = 251
		if v := judgeBad(at(0), r, why); v != want {
			t.Errorf("cause %d: verdict %d", why, v)
		}
	}
}

func TestAReplicaWithItsWholeShareIsNoLongerASuspect(t *testing.T) {
	settings := DefaultSettings()
	r := recordOf(100, 0)
	r.remembered = policy.Some[uint32](0)
	r.course.share = whole / 2
	for milliseconds, isConvicted := range []bool{true, false} {
		judge(at(999+uint64(milliseconds)), r, goodOthers(300), &settings)
		if r.isConvicted() != isConvicted {
			t.Errorf("with a share of %d, convicted %v", r.course.share, !isConvicted)
		}
	}
}

func TestAReplicaThatTheCallerTookOutIsNotJudged(t *testing.T) {
	settings := DefaultSettings()
	r := recordOf(30, 30)
	r.isOffered = false
	o := goodOthers(300)
	o.latency, o.unhurriedNS = policy.Some[uint64](1_000), 1_000
	judge(at(0), r, o, &settings)
	expectShare(t, &r.course, whole)
}
