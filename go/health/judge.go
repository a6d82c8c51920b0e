package health

import (
	"math"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const (
	// asGood: a replica whose success rate is at least this part of the others' is as good as they
	// are.
	asGood = whole / 100 * 97
	// hurried and busy are how many times slower than at best a fleet is that is one or the other.
	hurried = 4
	busy    = 3
	// deviations is how many standard deviations may be chance for a replica that is known to fail.
	deviations = 5
	// evidenceNeeded is how many bits of evidence are needed to lower a share: one in four million
	// by chance.
	evidenceNeeded = 22
	// evidenceAgain is how many are needed if the replica has less than its share already, since it
	// is a suspect.
	evidenceAgain = 10
	// onceIn: a run of failures is not chance if it would occur by chance less than once in this
	// many.
	onceIn = 1_000_000_000
	// runMax: no run of failures needs to be longer, as more of them would be chance, too.
	runMax = 64
)

// verdict is what to do with a replica.
type verdict uint8

const (
	// stay: it stays where it is. Its share may have changed.
	stay verdict = iota
	// leaveForErrors, leaveForSlowness and leaveForSilence: it is taken out.
	leaveForErrors
	leaveForSlowness
	leaveForSilence
	// comeBack: it comes back with a small share, because the other replicas are no better.
	comeBack
	// rise: it gets a small share, because the other replicas have no capacity left.
	rise
)

// leaveFor returns the verdict that a replica is taken out.
func leaveFor(why cause) verdict { return leaveForErrors + verdict(why) }

// judge compares one replica with the others.
func judge(now policy.Instant, r *record, o *reference, settings *Settings) verdict {
	noteBounds(r, o, settings)
	if r.course.isOut() {
		return judgeOut(r, o, settings)
	}
	// A replica that the caller has withdrawn is out already. Queries that still end there only
	// show that.
	if !r.isOffered {
		return stay
	}
	if settings.Probation != nil && isStalled(now, r, o, settings.Probation) {
		return leaveForSilence
	}
	if settings.Errors != nil && isBad(r, o) {
		return judgeBad(now, r, byErrors)
	}
	// A replica that warms up is slow for a reason, and has a small share already. Where the others
	// are busy, a slow replica may only be busy too, and is needed.
	isSlow := settings.Probation != nil && r.isSlow()
	if isSlow && !r.isWarmingUp && !isSlower(o, busy) {
		return judgeBad(now, r, bySlowness)
	}
	r.course.climb(now)
	if r.course.isWhole() {
		r.forgetRemembered()
	}
	return stay
}

// noteBounds sets the bounds for the events until the next tick.
func noteBounds(r *record, o *reference, settings *Settings) {
	r.warmNS, r.nearNS = math.MaxUint64, math.MaxUint64
	if o.latency.Known {
		r.warmNS = ints.Mul(o.latency.Value, 2)
	}
	if settings.Probation != nil {
		r.nearNS = slowFromNS(settings.Probation, o.latency)
	}
	r.others = o.latency
	r.isFleetHurried = isHurried(o)
	errors := settings.Errors
	if errors == nil {
		return
	}
	tookNS := uint64(0)
	if r.tally.bad > 0 {
		tookNS = r.tally.badNS / uint64(r.tally.bad)
	}
	r.priceNS = max(tookNS, ints.Mul(o.unhurriedNS, uint64(errors.FailureCost)))
	r.failuresMax = math.MaxUint32
	if o.success.Known {
		r.failuresMax = failuresMax(min(o.success.Value, r.successBeforeRun()), errors)
	}
}

// slowFromNS returns the latency above which a replica is slow.
func slowFromNS(probation *ProbationSettings, others policy.Optional[uint64]) uint64 {
	if !others.Known {
		return math.MaxUint64
	}
	return max(ints.Mul(others.Value, uint64(probation.Factor)), spanNS(probation.LatencyMin))
}

// isStalled reports whether queries wait at the replica and none is answered, for many times longer
// than others take and for twice as long as the others' slowest recent answer. In a queue, one long
// query delays all behind it.
func isStalled(now policy.Instant, r *record, o *reference, probation *ProbationSettings) bool {
	longestNS := ints.Mul(o.peak.Value, 2)
	return r.withoutProgressNS(now) > max(slowFromNS(probation, o.pace), longestNS)
}

// failuresMax returns how many failures in a row would not occur by chance at this success rate (in
// millionths): the setting, or as many as make a run rarer than once in a billion.
func failuresMax(success uint32, errors *ErrorSettings) uint32 {
	failing := uint64(whole - min(success, whole))
	count := uint32(0)
	for left := uint64(onceIn * onceIn); left > onceIn; count++ {
		if count == runMax {
			return math.MaxUint32
		}
		left = ints.MulDiv(left, failing, uint64(whole))
	}
	return max(errors.FailuresInARow, count)
}

// isBad reports whether the replica fails more often than the others, beyond chance.
func isBad(r *record, o *reference) bool {
	if !o.success.Known {
		return false
	}
	usual := uint64(o.success.Value)
	good := usual * uint64(asGood) / uint64(whole)
	if uint64(r.success) >= good {
		return false
	}
	failing := ints.Sub(uint64(whole), usual)
	if r.isConvicted() {
		queries := max(r.shown.queries, 1)
		if r.course.isOut() {
			queries = enough
		}
		return uint64(r.success)+deviations*ints.Sqrt(usual*failing/queries) < good
	}
	shown := o.shown
	shown.failures = max(shown.failures, ints.MulDiv(shown.queries, failing, uint64(whole)))
	needed := uint64(evidenceAgain)
	if r.course.isWhole() {
		needed = evidenceNeeded
	}
	return evidenceBits(r.shown, shown) >= needed
}

// expectedNS returns the expected cost of a query there, including retries of failures:
// latency + price × (1 / success − 1).
func expectedNS(r *record, latencyNS uint64) uint64 {
	success := uint64(max(r.success, 1))
	failing := ints.Sub(uint64(whole), success)
	return ints.Add(latencyNS, ints.MulDiv(r.priceNS, failing, success))
}

// judgeBad adjusts the share of a replica that fails more often than the others, or is slow. The
// share falls while the replica costs more than the others, and rises while they cost more. It
// moves step by step for slowness, too: a replica that is slow because of its queue is fast again
// with half of its queries, and the others may in turn be slow without it.
func judgeBad(now policy.Instant, r *record, why cause) verdict {
	if !r.others.Known {
		return stay
	}
	othersNS := r.others.Value
	latencyNS := othersNS
	if r.latency.Known {
		latencyNS = r.latency.Value
	}
	costNS := expectedNS(r, latencyNS)
	if costNS <= othersNS {
		r.course.rise(now)
		return stay
	}
	// Between the two bounds the share stays as it is.
	if costNS > ints.Add(othersNS, othersNS/4) {
		// Trials had brought it back, and it fails again.
		isRelapse := why == byErrors && r.course.isReturning()
		if r.course.fall(now, why, othersNS, costNS) || isRelapse {
			return leaveFor(why)
		}
	}
	return stay
}

// judgeOut returns what to do with a replica that is out.
func judgeOut(r *record, o *reference, settings *Settings) verdict {
	switch {
	case r.course.why != byErrors:
		if settings.Probation == nil {
			return comeBack
		}
	case settings.Errors == nil || !isBad(r, o):
		return comeBack
	case o.latency.Known && expectedNS(r, o.unhurriedNS) < o.latency.Value:
		return rise
	}
	return stay
}

// isHurried reports whether the others are many times slower than at best: they have no capacity
// left.
func isHurried(o *reference) bool { return isSlower(o, hurried) }

// isSlower reports whether the others are this many times slower than they were at best.
func isSlower(o *reference, times uint64) bool {
	return o.latency.Known && o.latency.Value/times > o.unhurriedNS
}
