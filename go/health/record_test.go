package health

import (
	"slices"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// book books queries in one bucket.
func book(r *record, bucket uint64, count int, outcome policy.Outcome) {
	for range count {
		r.booked(bucket, ms, outcome)
	}
}

func TestPushbackOfATenthLowersTheShareBy30Percent(t *testing.T) {
	r := newRecord(at(0), 1)
	shareAfter := func(pushed int) uint32 {
		book(r, 0, pushed, policy.OutcomePushedBack)
		book(r, 0, 100-pushed, policy.OutcomeSuccess)
		r.tick(at(100))
		return r.share(true, true)
	}
	for _, step := range []struct {
		pushed int
		share  uint32
	}{
		{9, whole}, {10, 700_000}, {10, 490_000}, {10, 343_000}, {10, 240_100}, {99, 168_070},
		{99, 117_649}, {99, 82_348}, {99, 62_500}, {99, 62_500}, {9, 112_500}, {0, 162_500},
	} {
		if found := shareAfter(step.pushed); found != step.share {
			t.Errorf("%d pushed back: share %d, not %d", step.pushed, found, step.share)
		}
	}
	if r.share(true, false) != whole {
		t.Errorf("it counts where the others push back, too")
	}
}

func TestFiveMoreQueriesCountWithTheSuccessRateOfTheFleet(t *testing.T) {
	for fleet, success := range map[uint32]uint32{whole: 714_285, 900_000: 642_857, 0: 0} {
		r := newRecord(at(0), 1)
		book(r, 0, 2, policy.OutcomeFailed)
		r.estimate(at(0), 0, fleet)
		if r.success != success {
			t.Errorf("5/7 of %d: %d, not %d", fleet, r.success, success)
		}
	}
}

func TestTheNewest200QueriesDecide(t *testing.T) {
	for newest, queries := range map[int]uint32{199: 299, 200: 200} {
		r := newRecord(at(0), 1)
		book(r, 0, 100, policy.OutcomeFailed)
		book(r, 1, newest, policy.OutcomeSuccess)
		r.estimate(at(1_000), 1, whole)
		if r.tally.count() != queries || r.shown.queries != uint64(queries) {
			t.Errorf("%d new ones: %d count", newest, r.tally.count())
		}
	}
}

func TestTheWorseOfResultsAndReportCountsForTwoSeconds(t *testing.T) {
	// (35 + 5) / (80 + 5) is the rate by its own results.
	for _, c := range []struct {
		reported          uint32
		ms                uint64
		success, failures uint32
	}{
		{0, 0, 470_588, 45}, {1, 0, 470_588, 45}, {500_000, 0, 470_588, 45},
		{750_000, 0, 250_000, 60}, {750_000, 1_999, 250_000, 60}, {750_000, 2_000, 470_588, 45},
	} {
		r := newRecord(at(0), 1)
		book(r, 0, 45, policy.OutcomeFailed)
		book(r, 0, 35, policy.OutcomeSuccess)
		r.reported(at(0), &policy.LoadReport{ErrorMillionths: policy.Some(c.reported)})
		r.estimate(at(c.ms), 0, whole)
		if want := (sample{80, uint64(c.failures)}); r.success != c.success || r.shown != want {
			t.Errorf("%d reported %d ms ago: %d, %+v", c.reported, c.ms, r.success, r.shown)
		}
	}
}

func TestAReportWithAResponseReplacesOnlyWhatItContains(t *testing.T) {
	r := newRecord(at(0), 1)
	r.nearNS = 100
	r.reported(at(0), &policy.LoadReport{
		ErrorMillionths: policy.Some[uint32](900_000), Latency: 101,
	})
	for _, c := range []struct {
		ms      uint64
		carried policy.LoadReport
		success uint32
	}{
		{ms: 0, success: 100_000},
		{ms: 1_999, success: 100_000},
		{ms: 2_000, success: whole},
		{3_000, policy.LoadReport{ErrorMillionths: policy.Some[uint32](300_000)}, 700_000},
	} {
		r.reportCarried(at(c.ms), &c.carried)
		r.estimate(at(c.ms), 0, whole)
		if r.success != c.success || !r.reportsAgainst(at(c.ms), 9_000*ms) {
			t.Errorf("at %d ms: %d", c.ms, r.success)
		}
	}
	r.reported(at(3_000), &policy.LoadReport{})
	r.estimate(at(3_000), 0, whole)
	if r.success != whole || r.reportsAgainst(at(3_000), ms) {
		t.Errorf("a probe's answer is not complete: %d", r.success)
	}
}

func TestAReplicaIsSlowIfHalfOfItsLastSixteenAnswersAre(t *testing.T) {
	r := newRecord(at(0), 1)
	r.nearNS = 100
	for i, step := range []struct {
		count     int
		latencyNS uint64
		isSlow    bool
	}{
		{7, 101, false}, {8, 100, false}, {1, 101, true}, {1, 100, false},
		{6, 101, false}, // the oldest no longer counts
		{1, 101, true},
	} {
		for range step.count {
			r.answered(at(1), step.latencyNS, policy.OutcomeSuccess)
		}
		if r.isSlow() != step.isSlow {
			t.Errorf("step %d: slow %v", i, r.isSlow())
		}
	}
}

func TestTheOldMeanLatencyWeighsEightAnswers(t *testing.T) {
	r := newRecord(at(0), 1)
	for _, step := range []struct {
		count     int
		latencyNS uint64
		mean      policy.Optional[uint64]
	}{
		{0, 0, policy.Optional[uint64]{}},
		{2, 300, policy.Some[uint64](300)}, // there is no old one
		{8, 500, policy.Some[uint64](400)},
		{24, 800, policy.Some[uint64](700)},
	} {
		for range step.count {
			r.answered(at(1), step.latencyNS, policy.OutcomeSuccess)
		}
		r.tick(at(100))
		if r.latency != step.mean {
			t.Errorf("%d of %d ns: %v", step.count, step.latencyNS, r.latency)
		}
	}
}

func TestFailuresBeyondTheUsualAndTwoMoreExcuseNoOtherReplica(t *testing.T) {
	for fleet, failures := range map[uint32]uint64{whole: 2, 900_000: 12, 700_000: 30} {
		r := newRecord(at(0), 1)
		book(r, 0, 30, policy.OutcomeFailed)
		book(r, 0, 70, policy.OutcomeSuccess)
		r.estimate(at(0), 0, fleet)
		r.compare(0, fleet)
		if want := (sample{100, failures}); r.compared.shown != want {
			t.Errorf("in a fleet of %d: %+v", fleet, r.compared.shown)
		}
	}
}

func TestOthersAreComparedAtEachFourthFailureOfARun(t *testing.T) {
	r := newRecord(at(0), 1)
	r.failuresMax = 5
	var runs []uint32
	for range 15 {
		book(r, 0, 1, policy.OutcomeFailed)
		if run, isBeyond := r.run(); isBeyond {
			runs = append(runs, run)
		}
	}
	if !slices.Equal(runs, []uint32{5, 9, 13}) {
		t.Errorf("compared at %v", runs)
	}
}

func TestWhatIsRememberedOfAReplicaThatLeaves(t *testing.T) {
	for _, c := range []struct {
		name             string
		isSudden         bool
		bad, good, after int // in this order; the last ones fail again
		success          uint32
		remembered       uint32
	}{
		{"sudden", true, 0, 60, 4, whole, 0},
		{"sudden, after six failures", true, 6, 54, 4, whole, 0},
		{"sudden, after an eighth", true, 7, 53, 4, whole, 53 * (whole / 64)},
		{"a decline that its newest queries show", false, 3, 13, 0, whole, 812_500},
		{"a decline that its rate shows", false, 3, 13, 0, 500_000, 500_000},
	} {
		r := newRecord(at(0), 1)
		book(r, 0, c.bad, policy.OutcomeFailed)
		book(r, 0, c.good, policy.OutcomeSuccess)
		book(r, 0, c.after, policy.OutcomeFailed)
		r.success = c.success
		r.remember(c.isSudden)
		if r.remembered != policy.Some(c.remembered) {
			t.Errorf("%s: %v, not %d", c.name, r.remembered, c.remembered)
		}
	}
}

func TestStreamsThatBreakOffAtOnceAreRememberedAsTotalFailure(t *testing.T) {
	r := newRecord(at(0), 1)
	for range 5 {
		r.booked(5, ms, policy.OutcomeSuccess)
	}
	// Each takes back the newest outcome, which is a failure already. Five failures in a row are
	// more than the history shows.
	for range 5 {
		r.broke(5, 5, 0, ms, policy.OutcomeBroken)
	}
	r.remember(true)
	if r.remembered != policy.Some[uint32](0) {
		t.Errorf("%v is remembered, not 0", r.remembered)
	}
}

func TestTrialsMoveWhatIsRemembered(t *testing.T) {
	r := newRecord(at(0), 1)
	r.rememberTrial(true)
	if r.remembered.Known {
		t.Errorf("it was not out")
	}
	r.remembered = policy.Some[uint32](200_000)
	for _, step := range []struct {
		isGood     bool
		remembered uint32
	}{{true, 300_000}, {false, 225_000}} {
		r.rememberTrial(step.isGood)
		if r.remembered.Value != step.remembered {
			t.Errorf("%d, not %d", r.remembered.Value, step.remembered)
		}
	}
}

func TestAResponseThatBreaksOffContinuesARunIfItBeganInTheLastTwoBuckets(t *testing.T) {
	for bucket, want := range map[uint64]uint32{5: 4, 6: 4, 7: 1} {
		r := newRecord(at(0), 1)
		book(r, 5, 3, policy.OutcomeFailed)
		before := r.booked(5, ms, policy.OutcomeSuccess)
		r.broke(bucket, 5, before, ms, policy.OutcomeBroken)
		r.failuresMax = want
		if run, isBeyond := r.run(); run != want || !isBeyond {
			t.Errorf("bucket %d: %d in a row, not %d", bucket, run, want)
		}
	}
}

func TestTwoQueriesThatWaitMakeASilence(t *testing.T) {
	r := newRecord(at(0), 1)
	expect := func(name string, milliseconds, silenceMS uint64) {
		t.Helper()
		if found := r.withoutProgressNS(at(milliseconds)); found != silenceMS*ms {
			t.Errorf("%s: %d ns, not %d ms", name, found, silenceMS)
		}
	}
	r.sent(at(0), false)
	expect("one may be slow", 900, 0)
	r.sent(at(900), false)
	expect("since the second", 1_000, 100)
	r.sent(at(1_000), false)
	expect("a third", 1_100, 200)
	r.answered(at(1_100), ms, policy.OutcomeSuccess)
	expect("since the answer", 1_150, 50)
	r.givenUp()
	expect("one is left", 1_150, 0)
}

func TestAnswersToQueriesFromBeforeASilenceEndedDoNotCount(t *testing.T) {
	settings := DefaultSettings()
	r := newRecord(at(0), 1)
	r.course.leave(at(0), bySilence, &settings)
	book(r, 0, 5, policy.OutcomeFailed)
	r.remember(false)
	if !r.wake(at(1_000)) {
		t.Fatalf("it does not wake")
	}
	r.estimate(at(1_000), 0, whole)
	if r.success != whole || r.isConvicted() {
		t.Errorf("failures from before count: %d", r.success)
	}
	r.nearNS = 0
	for latencyMS, isSlow := range map[uint64]bool{501: false, 500: true} {
		woken := *r
		for range 8 {
			woken.answered(at(1_500), latencyMS*ms, policy.OutcomeSuccess)
		}
		if woken.isSlow() != isSlow {
			t.Errorf("sent %d ms ago: slow %v", latencyMS, woken.isSlow())
		}
	}
}

func TestASlowOrOldReportSpeaksAgainstATrial(t *testing.T) {
	r := newRecord(at(0), 1)
	r.nearNS = 100
	if r.reportsAgainst(at(900), ms) {
		t.Errorf("no report ever came")
	}
	for _, c := range []struct {
		latency  time.Duration
		ms       uint64
		isShowed bool
	}{{100, 0, false}, {101, 0, true}, {100, 1_000, false}, {100, 1_001, true}, {0, 0, false}} {
		r.reported(at(0), &policy.LoadReport{Latency: c.latency})
		if r.reportsAgainst(at(c.ms), 1_000*ms) != c.isShowed {
			t.Errorf("%d ns, %d ms ago: %v", c.latency, c.ms, !c.isShowed)
		}
	}
}

func TestAnswerOrRestartMakesATrialDueAtOnce(t *testing.T) {
	settings := DefaultSettings()
	for _, restarts := range []bool{false, true} {
		r := newRecord(at(0), 1)
		r.reported(at(0), &policy.LoadReport{Incarnation: policy.Some[uint64](7)})
		r.course.leave(at(0), byErrors, &settings)
		if r.course.wantsTrial(at(300), false) {
			t.Errorf("it is due before")
		}
		if restarts {
			r.reported(at(300), &policy.LoadReport{Incarnation: policy.Some[uint64](8)})
		} else {
			r.answered(at(300), ms, policy.OutcomeFailed)
		}
		if !r.course.wantsTrial(at(300), false) {
			t.Errorf("it is not due; restarts: %v", restarts)
		}
	}
}

func TestAReturningReplicaIsNotAccusedByAReportFromBefore(t *testing.T) {
	r := newRecord(at(0), 1)
	r.reported(at(0), &policy.LoadReport{ErrorMillionths: policy.Some(whole)})
	r.forget()
	if r.estimate(at(0), 0, whole); r.success != whole || r.isKnown {
		t.Errorf("success is %d, known %v", r.success, r.isKnown)
	}
}

func TestAReportAloneIsKnowledge(t *testing.T) {
	r := newRecord(at(0), 1)
	r.reported(at(0), &policy.LoadReport{ErrorMillionths: policy.Some[uint32](300_000)})
	if r.estimate(at(0), 0, whole); r.success != 700_000 || !r.isKnown {
		t.Errorf("success is %d, known %v", r.success, r.isKnown)
	}
}
