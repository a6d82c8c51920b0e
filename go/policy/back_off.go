package policy

import (
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

const (
	// windowNS is the length of a window, and windowMaxNS its longest length if fewer than endedMin
	// probes end in it.
	windowNS    = uint64(100 * time.Millisecond)
	windowMaxNS = uint64(time.Second)
	endedMin    = 8
	// troubledMin: fewer replicas in trouble show nothing about the others.
	troubledMin = 2
	// slowTimes: a round trip is slow if it is longer than this many times the usual one, and at
	// least slowMinNS or half the deadline. In an idle client an answer may wait for the next pick,
	// which is not slow.
	slowTimes = 8
	slowMinNS = uint64(25 * time.Millisecond)
	// starvedMin: fewer probes without a free slot are chance.
	starvedMin = 8
	// rateKept is what remains of the rate after a window of overload, in millionths.
	rateKept = 750_000
	// recoveryNS is the time in which the rate recovers from 0 to all.
	recoveryNS = uint64(30 * time.Second)
)

// probeWindow has the counts of one window.
type probeWindow struct {
	beganAt Instant
	// number identifies the window; 0 is none.
	number uint32
	sent   uint64
	// unsent counts probes that the caller returned.
	unsent uint64
	// starved counts probes that were not sent because no slot was free.
	starved      uint64
	ended        uint64
	answers      uint64
	roundTripsNS uint64
	// replicas counts those of which a probe ended, and troubled those with at least as many bad
	// ends as good ones.
	replicas uint32
	troubled uint32
}

func (w *probeWindow) showsOverload() bool {
	troubled := w.troubled >= troubledMin && 2*w.troubled >= w.replicas
	starved := w.starved >= starvedMin && w.starved >= w.sent
	return troubled || starved || w.unsent > 0
}

// showsHealth reports whether a replica answers normally.
func (w *probeWindow) showsHealth() bool { return w.replicas > w.troubled }

// meanNS returns the mean round trip, or false without answers.
func (w *probeWindow) meanNS() (uint64, bool) {
	if w.answers == 0 {
		return 0, false
	}
	return w.roundTripsNS / w.answers, true
}

// backOff lowers the probe rate while the probes themselves show an overload.
//
// A probe costs its replica and its client the same for each query, at any load. When either is
// overloaded, probes are the first thing to save. The sign is how probes end, in windows of a tenth
// of a second: answers that are late or take far longer than usual, probes that the caller could
// not send, or that found no free slot. The client's own delay is part of all this: a probe waits
// to be sent, and its answer waits to be read.
//
// Replicas are counted, not probes: a single replica that answers nothing but is probed often has a
// problem of its own. After two such windows in a row the rate is lowered by a quarter, and again
// after each further one. It recovers over half a minute, while round trips are far from slow.
type backOff struct {
	window probeWindow
	// again: the window before showed an overload.
	again bool
	// usualNS is the round-trip time without congestion. 0 before the first window with an answer.
	usualNS   uint64
	slowMinNS uint64
	// share is the share of the configured rate that is used.
	share Millionths
	// shareMin is the smallest share. It is all of the rate if the rate is never lowered.
	shareMin Millionths
	rateMin  Millionths
}

func newBackOff(settings *PrequalSettings) backOff {
	shareMin := One
	if settings.ProbeRate > 0 {
		least := uint64(settings.ProbeRateMin) * uint64(One) / uint64(settings.ProbeRate)
		shareMin = Millionths(min(least, uint64(One)))
	}
	return backOff{
		window:    probeWindow{number: 1},
		slowMinNS: min(slowMinNS, spanNS(settings.ProbeDeadline)/2),
		share:     One,
		shareMin:  shareMin,
		rateMin:   settings.ProbeRateMin,
	}
}

// isOff reports whether the rate is never lowered.
func (b *backOff) isOff() bool { return b.shareMin == One }

// lowered returns the rate that is used of a wanted one: at least the configured minimum, unless
// less is wanted.
func (b *backOff) lowered(wanted Millionths) Millionths {
	if b.share == One {
		return wanted
	}
	return max(wanted.share(b.share), min(b.rateMin, wanted))
}

// tick evaluates the window if it is over. It is called with each query.
func (b *backOff) tick(now Instant) {
	lastedNS := now.nsSince(b.window.beganAt)
	if lastedNS < windowNS || b.isOff() {
		return
	}
	if b.window.ended >= endedMin || lastedNS >= windowMaxNS {
		b.close(lastedNS)
		// 0 is no window.
		b.window = probeWindow{beganAt: now, number: max(b.window.number+1, 1)}
	}
}

func (b *backOff) close(lastedNS uint64) {
	overload := b.window.showsOverload()
	switch {
	case overload && b.again:
		kept := uint64(b.share) * rateKept / uint64(One)
		b.share = max(Millionths(kept), b.shareMin)
	case !overload && b.window.showsHealth() && !b.isCrowded():
		gained := uint64(One) * min(lastedNS, recoveryNS) / recoveryNS
		b.share = Millionths(min(uint64(b.share)+gained, uint64(One)))
	}
	b.again = overload
	b.learn()
}

// learn updates the usual round trip. It falls to a shorter one within seconds, and doubles in a
// little more than a minute, after which an overload is over or has become usual.
func (b *backOff) learn() {
	mean, known := b.window.meanNS()
	switch {
	case !known:
	case b.usualNS == 0:
		b.usualNS = mean
	case mean < b.usualNS:
		b.usualNS -= (b.usualNS - mean) / 16
	default:
		b.usualNS = min(mean, b.usualNS+b.usualNS/1024+1)
	}
}

// answered notes that a probe of a replica that normally answers has ended after this round trip.
// The ends are those of the replica.
func (b *backOff) answered(ends *probeEnds, roundTripNS uint64) {
	if b.isOff() {
		return
	}
	b.window.answers++
	b.window.roundTripsNS = ints.Add(b.window.roundTripsNS, roundTripNS)
	b.ended(ends, !b.isSlow(roundTripNS))
}

// missed notes that a probe of a replica that normally answers has ended unanswered.
func (b *backOff) missed(ends *probeEnds) {
	if !b.isOff() {
		b.ended(ends, false)
	}
}

func (b *backOff) ended(ends *probeEnds, well bool) {
	b.window.ended++
	if ends.window == b.window.number {
		b.window.troubled -= uint32(number(ends.balance >= 0))
	} else {
		b.window.replicas++
		*ends = probeEnds{window: b.window.number}
	}
	// A client without queries may stay in one window for weeks.
	const most = 1<<31 - 1
	switch {
	case well && ends.balance > -most:
		ends.balance--
	case !well && ends.balance < most:
		ends.balance++
	}
	b.window.troubled += uint32(number(ends.balance >= 0))
}

func (b *backOff) isSlow(roundTripNS uint64) bool {
	return roundTripNS >= b.slowMinNS && b.usualNS > 0 && roundTripNS >= ints.Mul(b.usualNS, slowTimes)
}

// isCrowded reports whether round trips are half way to slow in the mean. The rate then stays where
// it is, or each rise would lead to the next overload.
func (b *backOff) isCrowded() bool {
	mean, known := b.window.meanNS()
	slowNS := max(ints.Mul(b.usualNS, slowTimes), b.slowMinNS)
	return known && b.usualNS > 0 && mean >= slowNS/2
}
