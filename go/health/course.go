package health

import (
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const (
	// stepAnswers is the number of good answers that a share needs to double.
	stepAnswers = 8
	// returnShare is the share of a replica that has just come back.
	returnShare = whole / 8
	// sparedShare is the share of a replica that should be out but stays in because too many are
	// out already.
	sparedShare = whole / 16
	// shareMin is the share below which a replica is out.
	shareMin = whole / 64
	// stepNS is how long a share needs to double without a bad answer, because answers are rare
	// where there are few queries.
	stepNS = 1_000_000_000
	// returnNSMax is how long a share needs to double with any answers. This helps replicas that
	// are slower than the others by nature.
	returnNSMax = 60_000_000_000
	// riseShare is the rise of a share in one tick while the replica is worth more than it costs.
	riseShare = whole / 50
	// trialsNeeded is the number of trials that must pass in a row.
	trialsNeeded = 3
	// standsNS is how long a response must run on after a good head for its trial to pass.
	standsNS = 1_000_000_000
	// forgivenAfter: a replica that had its whole share for this many times the longest back-off
	// starts again with the shortest back-off.
	forgivenAfter = 8
)

// cause is why a replica has less than its whole share.
type cause uint8

const (
	byErrors   cause = iota
	bySlowness       // its answers take long
	bySilence        // queries wait, and the replica answers none of them
)

// trialResult is the result of a trial.
type trialResult uint8

const (
	trialPassed trialResult = iota
	trialFailed
	trialVoid // no result: the client gave the query up
)

// place says whether a replica is in the choice.
type place uint8

const (
	placeIn place = iota
	placeOut
	placeReturning // it was out, and trials have brought it back
	placeSpared    // it should be out, but stays in because too many are out already
)

// course is how a replica is taken out of the choice and comes back: its share, the reason, and its
// trials.
type course struct {
	share uint32
	// wokenShare is the share with which it comes back after a silence: half of what it had.
	wokenShare uint32
	why        cause
	place      place
	// good counts good answers less bad ones since the last step.
	good uint32
	// unbrokenSince is since when there was no bad answer.
	unbrokenSince policy.Instant
	// steppedAt is when the share was last set.
	steppedAt policy.Instant
	passed    uint8
	isTried   bool
	// trial is the number of the last trial. Its good head, if it had one, arrived at beganAt and
	// took headNS.
	trial    uint32
	hasBegun bool
	beganAt  policy.Instant
	headNS   uint64
	// isVoid: the last trial had no result. The next one needs a token even if earlier ones passed.
	isVoid      bool
	nextTrialAt policy.Instant
	backOffNS   uint64
	// wholeAt is since when it has its whole share.
	wholeAt policy.Instant
	// wholeNS is for how long it had its whole share before it lost it. 0 once it is ejected.
	wholeNS uint64
}

func newCourse(now policy.Instant) course {
	return course{
		share:         whole,
		wokenShare:    whole / 2,
		unbrokenSince: now,
		steppedAt:     now,
		nextTrialAt:   now,
		wholeAt:       now,
	}
}

func (c *course) isOut() bool       { return c.place == placeOut }
func (c *course) isReturning() bool { return c.place == placeReturning }
func (c *course) isSpared() bool    { return c.place == placeSpared }
func (c *course) isWhole() bool     { return c.share == whole }

// leave takes the replica out of the choice.
func (c *course) leave(now policy.Instant, why cause, settings *Settings) {
	longestNS := longestBackOffNS(settings)
	c.wokenShare = min(max(c.share/2, returnShare), whole/2)
	c.step(now, 0)
	if c.backOffNS == 0 || c.wholeNS > ints.Mul(longestNS, forgivenAfter) {
		c.backOffNS = spanNS(settings.BackOff)
	} else {
		c.backOffNS = min(ints.Mul(c.backOffNS, 2), longestNS)
	}
	c.wholeNS = 0
	c.why = why
	c.place = placeOut
	c.passed = 0
	c.isTried = false
	c.isVoid = false
	c.putOff(now)
}

// keepLimited keeps a replica in with a small share: it should be out, but too many are.
func (c *course) keepLimited(now policy.Instant, why cause) {
	c.why = why
	c.place = placeSpared
	c.step(now, sparedShare)
}

// comeBack puts the replica back into the choice with a small share: its trials passed, or the
// other replicas are no better.
func (c *course) comeBack(now policy.Instant) {
	c.place = placeReturning
	c.step(now, returnShare)
}

// step sets the share, at most to the whole. What allows it to double has to be shown from now on.
func (c *course) step(now policy.Instant, share uint32) {
	share = min(share, whole)
	switch isWhole := share == whole; {
	case c.isWhole() && !isWhole:
		c.wholeNS = since(now, c.wholeAt)
	case isWhole && !c.isWhole():
		c.place, c.wholeAt = placeIn, now
	}
	c.share = share
	c.good = 0
	c.unbrokenSince = now
	c.steppedAt = now
}

// wake brings a replica that was out for silence back with half of its former share, because it
// answers again. It reports whether it was.
func (c *course) wake(now policy.Instant) bool {
	if !c.isOut() || c.why != bySilence {
		return false
	}
	c.comeBack(now)
	c.share = c.wokenShare
	return true
}

// rise gives the replica a little more share although it is bad: the other replicas have no
// capacity left.
func (c *course) rise(now policy.Instant) {
	if c.isOut() {
		c.place = placeIn
	}
	c.step(now, c.share+riseShare)
}

// fall lowers the share: the replica costs costNS, the others cost referenceNS, which is less. It
// reports whether no share is left.
func (c *course) fall(now policy.Instant, why cause, referenceNS, costNS uint64) bool {
	c.why = why
	fallen := min(ints.MulDiv(uint64(c.share), referenceNS, max(costNS, 1)), uint64(whole))
	c.step(now, max(uint32(fallen), c.share/2))
	return c.share < shareMin
}

// answered counts an answer that came while the replica has less than its whole share. A good but
// slow answer takes back only one good one: a replica that was down has cold caches.
func (c *course) answered(now policy.Instant, isGood, isNear bool) {
	switch {
	case isGood && isNear:
		c.good = ints.Add(c.good, 1)
		return
	case isGood:
		c.good = ints.Sub(c.good, 1)
	default:
		c.good = ints.Sub(c.good, 2)
	}
	c.unbrokenSince = now
}

// climb doubles the share, as nothing is wrong with the replica, if enough answers were good, or if
// none was bad for long enough.
func (c *course) climb(now policy.Instant) {
	isShown := c.good >= stepAnswers ||
		since(now, c.unbrokenSince) >= stepNS ||
		since(now, c.steppedAt) >= returnNSMax
	if c.isWhole() || !isShown {
		return
	}
	c.step(now, 2*c.share)
	if c.isSpared() {
		c.place = placeIn
	}
}

// wantsTrial reports whether a trial may be sent. If inAHurry, the other replicas have no capacity
// left, so the back-off is ignored.
func (c *course) wantsTrial(now policy.Instant, inAHurry bool) bool {
	return c.isOut() && !c.isTried && (inAHurry || now >= c.nextTrialAt)
}

// isPassing reports whether a trial has passed and more must follow.
func (c *course) isPassing() bool { return c.passed > 0 && !c.isVoid }

// trialSent notes that a trial is sent, and returns its number.
func (c *course) trialSent() uint32 {
	c.isTried = true
	c.hasBegun = false
	c.trial++
	return c.trial
}

// awaits reports whether this trial is in flight and not judged yet.
func (c *course) awaits(trial uint32) bool { return c.isTried && c.trial == trial }

// trialBegan notes that this trial has a good head.
func (c *course) trialBegan(now policy.Instant, trial uint32, headNS uint64) {
	if c.awaits(trial) {
		c.hasBegun, c.beganAt, c.headNS = true, now, headNS
	}
}

// standing returns the latency of the head of a trial whose response runs on for long enough to
// have passed. The rest of the response may take hours, in which the replica may come back for
// another reason: then nothing is left to pass.
func (c *course) standing(now policy.Instant) (headNS uint64, stands bool) {
	return c.headNS, c.isOut() && c.isTried && c.hasBegun && since(now, c.beganAt) >= standsNS
}

// revive allows the next trial at once, after a sign of life.
func (c *course) revive(now policy.Instant) { c.nextTrialAt = min(c.nextTrialAt, now) }

// trialEnded ends a trial. It reports whether it was the last one needed.
func (c *course) trialEnded(now policy.Instant, result trialResult, settings *Settings) bool {
	if !c.isOut() || !c.isTried {
		return false
	}
	c.isTried = false
	c.isVoid = result == trialVoid
	switch result {
	case trialPassed:
		c.passed++
		c.nextTrialAt = now
		return c.passed >= trialsNeeded
	case trialFailed:
		c.trialFailed(now, settings)
	case trialVoid:
		c.putOff(now)
	}
	return false
}

// trialFailed notes that a trial failed, or broke off after it had passed.
func (c *course) trialFailed(now policy.Instant, settings *Settings) {
	c.passed = 0
	c.backOffNS = min(ints.Mul(c.backOffNS, 2), longestBackOffNS(settings))
	c.putOff(now)
}

// putOff delays the next trial by another back-off.
func (c *course) putOff(now policy.Instant) { c.nextTrialAt = after(now, c.backOffNS) }

func longestBackOffNS(settings *Settings) uint64 {
	return spanNS(max(settings.BackOffMax, settings.BackOff))
}

// spanNS returns a span in nanoseconds. Settings have none below 0.
func spanNS(span time.Duration) uint64 { return uint64(max(span, 0)) }
