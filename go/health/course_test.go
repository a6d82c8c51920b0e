package health

import (
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

const ms = 1_000_000

func at(milliseconds uint64) policy.Instant { return policy.Instant(milliseconds * ms) }

// leftAt0 returns the course of a replica that has left for its errors at 0.
func leftAt0() (*course, *Settings) {
	settings := DefaultSettings()
	c := newCourse(at(0))
	c.leave(at(0), byErrors, &settings)
	return &c, &settings
}

func expectShare(t *testing.T, c *course, share uint32) {
	t.Helper()
	if c.share != share {
		t.Errorf("share is %d, not %d", c.share, share)
	}
}

func TestBackOffDoublesWithEachFailedTrial(t *testing.T) {
	c, settings := leftAt0()
	expectShare(t, c, 0)
	now := uint64(0)
	for _, wait := range []uint64{1_000, 2_000, 4_000, 4_000} {
		if c.wantsTrial(at(now+wait-1), false) {
			t.Errorf("a trial after less than %d ms", wait)
		}
		if !c.wantsTrial(at(now+wait-1), true) {
			t.Errorf("no trial in a hurry")
		}
		now += wait
		if !c.wantsTrial(at(now), false) {
			t.Errorf("no trial after %d ms", wait)
		}
		c.trialSent()
		if c.wantsTrial(at(now), true) {
			t.Errorf("two trials at a time")
		}
		if c.trialEnded(at(now), trialFailed, settings) {
			t.Errorf("a failed trial brings it back")
		}
	}
}

func TestThreeTrialsBringBackAnEighthAndAnswersTheRest(t *testing.T) {
	c, settings := leftAt0()
	ended := func(result trialResult) bool {
		c.trialSent()
		return c.trialEnded(at(5_000), result, settings)
	}
	for _, result := range []trialResult{trialPassed, trialPassed, trialFailed, trialPassed, trialVoid, trialPassed} {
		if ended(result) {
			t.Fatalf("it is back too soon")
		}
		// After a trial without a result, the next one waits and needs a token.
		isPassed := result == trialPassed
		if c.isPassing() != isPassed || c.wantsTrial(at(5_000), false) != isPassed {
			t.Errorf("result %d: passing %v, due %v", result, c.isPassing(), !isPassed)
		}
	}
	if !ended(trialPassed) {
		t.Fatalf("three passed trials in a row do not bring it back")
	}
	c.comeBack(at(5_000))
	for _, share := range []uint32{whole / 8, whole / 4, whole / 2, whole} {
		expectShare(t, c, share)
		for range 7 {
			c.answered(at(5_500), true, true)
		}
		c.answered(at(5_500), false, false) // takes back two
		c.answered(at(5_500), true, false)  // takes back one
		for range 3 {
			c.answered(at(5_500), true, true)
		}
		c.climb(at(5_999))
		expectShare(t, c, share)
		c.answered(at(5_500), true, true)
		c.climb(at(5_999))
	}
	if !c.isWhole() || c.isReturning() {
		t.Errorf("it is not whole: %+v", c)
	}
	c.trialEnded(at(7_000), trialFailed, settings)
	expectShare(t, c, whole)
}

func TestAReturnThatDoesNotLastLengthensTheBackOff(t *testing.T) {
	c, settings := leftAt0()
	c.comeBack(at(900))
	c.leave(at(1_000), bySlowness, settings)
	if c.wantsTrial(at(2_999), false) || !c.wantsTrial(at(3_000), false) {
		t.Errorf("the second back-off is not 2 s")
	}
	c.comeBack(at(5_000))
	for range 3 {
		for range 8 {
			c.answered(at(5_500), true, true)
		}
		c.climb(at(5_000))
	}
	forgiven := *c
	c.leave(at(37_000), byErrors, settings)
	if c.wantsTrial(at(40_999), false) {
		t.Errorf("the third back-off is not 4 s")
	}
	forgiven.leave(at(37_001), byErrors, settings)
	if !forgiven.wantsTrial(at(38_001), false) {
		t.Errorf("a replica that was sound for 32 s does not begin at 1 s again")
	}
}

func TestShareFallsByItsCostAndAtMostByHalf(t *testing.T) {
	c := newCourse(at(0))
	if c.fall(at(0), byErrors, 100, 125) {
		t.Errorf("it is out")
	}
	expectShare(t, &c, whole/5*4)
	falls := 1
	for !c.fall(at(0), byErrors, 1, 1_000) {
		falls++
	}
	if falls != 6 {
		t.Errorf("it is out after %d falls; 0.8 · 2^−6 is below 1/64", falls)
	}
	// The bound of a sixteenth: 1/64.
	for referenceNS, isOut := range map[uint64]bool{15_625: false, 15_624: true} {
		c := newCourse(at(0))
		c.share = 20_625
		if c.fall(at(0), byErrors, referenceNS, 20_625) != isOut {
			t.Errorf("at %d it is not out: %v", referenceNS, isOut)
		}
	}
}

func TestShareRisesByAFiftiethAndIsASixteenthIfSpared(t *testing.T) {
	c, _ := leftAt0()
	for rises := range uint32(3) {
		c.rise(at(0))
		expectShare(t, c, (rises+1)*20_000)
	}
	c.keepLimited(at(0), byErrors)
	expectShare(t, c, 62_500)
	if !c.isSpared() {
		t.Errorf("it is not spared")
	}
}

func TestAShareDoublesAfterASecondWithoutBadAnswersAndAfterAMinuteWithAny(t *testing.T) {
	c, _ := leftAt0()
	c.comeBack(at(1_000))
	for _, step := range []struct {
		ms    uint64
		share uint32
	}{{1_999, whole / 8}, {2_000, whole / 4}} {
		c.climb(at(step.ms))
		expectShare(t, c, step.share)
	}
	c.answered(at(2_500), true, false)
	c.climb(at(3_499))
	expectShare(t, c, whole/4)
	c.climb(at(3_500))
	expectShare(t, c, whole/2)

	c.comeBack(at(10_000))
	c.answered(at(69_900), false, false)
	c.climb(at(69_999))
	expectShare(t, c, whole/8)
	c.climb(at(70_000))
	expectShare(t, c, whole/4)
}

func TestAfterItsFirstMinuteAShareDoublesOnlyOnEvidence(t *testing.T) {
	limited, fallen := newCourse(at(0)), newCourse(at(0))
	limited.keepLimited(at(70_000), byErrors)
	fallen.fall(at(70_000), bySlowness, 1, 2)
	for c, share := range map[*course]uint32{&limited: whole / 16, &fallen: whole / 2} {
		c.climb(at(70_100)) // no second without a bad answer
		expectShare(t, c, share)
		c.answered(at(71_000), false, false)
		c.climb(at(71_100))
		expectShare(t, c, share)
	}
	c, _ := leftAt0()
	c.comeBack(at(0))
	c.answered(at(60_000), false, false)
	for _, now := range []uint64{60_000, 60_100} {
		c.climb(at(now))
		expectShare(t, c, whole/4) // once a minute
	}
}

func TestALongSoundTimeIsForgivenHoweverTheShareFalls(t *testing.T) {
	const day = 86_400_000
	fallen, settings := leftAt0()
	fallen.comeBack(at(1_000))
	for _, now := range []uint64{2_000, 3_000, 4_000} {
		fallen.climb(at(now))
	}
	expectShare(t, fallen, whole)
	for !fallen.fall(at(day), bySlowness, 1, 2) {
	}
	limited := *fallen
	limited.keepLimited(at(day), bySlowness)
	for _, c := range []*course{fallen, &limited} {
		c.leave(at(day), bySlowness, settings)
		if !c.wantsTrial(at(day+1_000), false) {
			t.Errorf("the back-off is not 1 s again")
		}
		c.comeBack(at(day + 1_000))
		c.leave(at(day+2_000), bySlowness, settings)
		if c.wantsTrial(at(day+3_999), false) || !c.wantsTrial(at(day+4_000), false) {
			t.Errorf("it is forgiven more than once")
		}
	}
}

func TestAShareThatRisesToTheWholeEndsSparing(t *testing.T) {
	c, settings := leftAt0()
	c.keepLimited(at(0), byErrors)
	for !c.isWhole() {
		if !c.isSpared() {
			t.Fatalf("not spared at %d", c.share)
		}
		c.rise(at(1_000))
	}
	if c.isSpared() {
		t.Errorf("it is still spared")
	}
	c.rise(at(40_000))
	c.leave(at(40_000), byErrors, settings)
	if !c.wantsTrial(at(41_000), false) {
		t.Errorf("a replica that was sound for 39 s does not begin at 1 s again")
	}
}

func TestAnAnswerWakesOnlyAReplicaThatWasSilent(t *testing.T) {
	c, settings := leftAt0()
	if c.wake(at(10)) {
		t.Errorf("a replica that fails is awake")
	}
	*c = newCourse(at(0))
	for _, share := range []uint32{whole / 2, whole / 4, whole / 8, whole / 8} {
		c.leave(at(20), bySilence, settings)
		if !c.wake(at(30)) || c.isOut() || c.wake(at(40)) {
			t.Errorf("it does not wake once")
		}
		expectShare(t, c, share) // half of what it had, and no less than by trials
	}
}

func TestAReplicaHasRestartedIfItsNameIsNewAndTheLastRestartFiveSecondsAgo(t *testing.T) {
	i := newIncarnations()
	for _, step := range []struct {
		ms, name     uint64
		hasRestarted bool
	}{
		{0, 7, false}, // the first
		{1, 7, false},
		{2, 8, true},
		{10_000, 7, false}, // two processes take turns
		{10_000, 8, false},
		{20_000, 9, true},
		{24_999, 10, false}, // too soon
		{25_000, 10, false}, // known by now
		{25_000, 11, true},
	} {
		if found := i.named(at(step.ms), step.name); found != step.hasRestarted {
			t.Errorf("%d at %d ms: restarted %v", step.name, step.ms, found)
		}
	}
}

func TestWarmUpDoublesWithEightGoodAnswersAndEndsInTime(t *testing.T) {
	w := warmUp{share: whole / 10, endsAt: 1_000}
	for i, step := range []struct {
		good, bad int
		share     uint32
	}{
		{0, 3, 100_000}, {7, 1, 100_000}, {2, 0, 100_000}, {1, 0, 200_000},
		{7, 0, 200_000}, {1, 0, 400_000}, {8, 0, 800_000}, {8, 0, whole},
	} {
		for range step.good {
			w.answered(true)
		}
		for range step.bad {
			w.answered(false)
		}
		if isOver := w.tick(0); isOver != (step.share == whole) || w.share != step.share {
			t.Errorf("step %d: share %d, over %v", i, w.share, isOver)
		}
	}
	w = warmUp{share: whole / 10, endsAt: 1_000}
	if w.tick(999) || !w.tick(1_000) {
		t.Errorf("it does not end at its end")
	}
}

func TestAShareThatDoublesEndsSparing(t *testing.T) {
	c, _ := leftAt0()
	c.keepLimited(at(0), byErrors)
	c.climb(at(1_000))
	expectShare(t, c, whole/8)
	if c.isSpared() {
		t.Errorf("it is still spared")
	}
}

func TestATrialDoesNotPassByTheHeadOfTheOneBefore(t *testing.T) {
	c, settings := leftAt0()
	c.trialBegan(at(1_000), c.trialSent(), 1)
	c.trialEnded(at(1_100), trialFailed, settings)
	if _, stands := c.standing(at(9_000)); stands {
		t.Errorf("it has ended")
	}
	c.trialSent()
	if _, stands := c.standing(at(9_000)); stands {
		t.Errorf("it has no head")
	}
}

func TestATrialThatStillRunsDoesNotPassOnceTheReplicaIsBack(t *testing.T) {
	c, _ := leftAt0()
	c.trialBegan(at(1_000), c.trialSent(), 1)
	if _, stands := c.standing(at(9_000)); !stands {
		t.Errorf("it runs on after a good head")
	}
	c.comeBack(at(9_000))
	if _, stands := c.standing(at(9_000)); stands {
		t.Errorf("it would pass at each tick")
	}
}
