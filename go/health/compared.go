package health

import (
	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// failuresBesides: a replica adds at most the usual failures and this many more to the common
// sample. A replica that fails every query must not set the standard for the others.
const failuresBesides = 2

// compared is what one replica contributes to the comparison of the others, as of the last tick. It
// is empty if the replica is not in the choice, or should not be.
type compared struct {
	success        policy.Optional[uint32]
	successJustNow policy.Optional[uint32]
	shown          sample
}

// compare notes the values with which the others are compared. fleet is the success rate before
// there is data.
func (r *record) compare(bucket uint64, fleet uint32) {
	r.compared = compared{}
	if !r.isCompared() {
		return
	}
	if r.isKnown {
		r.compared.success = policy.Some(r.success)
	}
	if justNow := r.window.since(ints.Sub(bucket, 1)); justNow.count() > 0 {
		r.compared.successJustNow = policy.Some(successOf(&justNow, fleet))
	}
	usual := r.shown.queries * uint64(whole-min(fleet, whole)) / uint64(whole)
	r.compared.shown = sample{
		queries:  r.shown.queries,
		failures: min(r.shown.failures, usual+failuresBesides),
	}
}

// comparedLatency returns the latency of its good answers, if others are compared with it.
func (r *record) comparedLatency() policy.Optional[uint64] { return r.ifInChoice(r.latency) }

// comparedPace returns the larger of its latency and how long it has kept queries waiting, if
// others are compared with it.
func (r *record) comparedPace(now policy.Instant) policy.Optional[uint64] {
	withoutProgressNS := r.withoutProgressNS(now)
	return r.ifInChoice(policy.Optional[uint64]{
		Value: max(r.latency.Value, withoutProgressNS),
		Known: r.latency.Known || withoutProgressNS > 0,
	})
}

// comparedPeak returns its longest recent good answer, if others are compared with it.
func (r *record) comparedPeak() policy.Optional[uint64] {
	peakNS := r.peaks.longest()
	return r.ifInChoice(policy.Optional[uint64]{Value: peakNS, Known: peakNS > 0})
}

func (r *record) ifInChoice(value policy.Optional[uint64]) policy.Optional[uint64] {
	if !r.isInChoice() {
		return policy.Optional[uint64]{}
	}
	return value
}

// isCompared reports whether it is in the choice, and should be.
func (r *record) isCompared() bool { return r.isInChoice() && !r.course.isSpared() }
