package health

import (
	"math"
	"math/bits"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const (
	// enough is the number of newest answers that decide.
	enough = 200
	// pseudoQueries is how many virtual queries with the fleet's success rate are added, so that
	// two failures of two do not count as 100 %.
	pseudoQueries = 5
	// latencySmoothing is how many answers the old mean weighs as much as.
	latencySmoothing = 8
	// lookEvery: while the replica keeps failing, the others are compared with every n-th failure.
	lookEvery = 4
	// reportNSMax is how long a report's error rate is valid.
	reportNSMax = 2_000_000_000
	// pushShareMin is the smallest share of a replica that pushes back.
	pushShareMin = whole / 16
)

// record is the health record of one replica: how its queries ended, how long they took, and what
// its reports contain.
type record struct {
	// stay is the number of the time since it last joined.
	stay uint32
	// isOffered: the caller offers it as a candidate.
	isOffered bool
	course    course
	window    window
	// tally is the part of the window that decides, as of the last estimate.
	tally tally
	// history is the newest outcomes, a bit for each, the newest lowest: 1 is good.
	history        uint64
	failuresInARow uint32
	// failuresMax is how many failures in a row are not chance, as of the last tick.
	failuresMax uint32
	// waiting counts queries without a head. progressAt is when the last head arrived or the first
	// such query was sent, and pairAt when a second query began to wait.
	waiting    uint32
	progressAt policy.Instant
	pairAt     policy.Instant
	// inFlight counts the queries of this stay in flight.
	inFlight uint32
	// tickAnswers and tickLatencyNS count good answers since the last tick.
	tickAnswers   uint64
	tickLatencyNS uint64
	tickPushed    uint32
	tickEnded     uint32
	// latency is the mean latency of good answers, in nanoseconds, and peaks the longest ones.
	latency policy.Optional[uint64]
	peaks   peaks
	// wokenAt: queries sent before this time still show a silence that is over.
	wokenAt policy.Instant
	// isFleetHurried: the others are so slow that a timeout is a sign of load.
	isFleetHurried bool
	// slow is the newest good answers, a bit for each, the newest lowest: 1 is slow.
	slow uint16
	// nearNS and warmNS are bounds as of the last tick. Above nearNS an answer is slow; up to
	// warmNS it is as fast as the others'.
	nearNS uint64
	warmNS uint64

	isWarmingUp bool
	warmUp      warmUp
	pushShare   uint32

	reportedFailures uint32
	reportedLatency  policy.Optional[uint64]
	reportedAt       policy.Instant
	incarnations     incarnations

	// success is the latest estimate of its success rate, in millionths. It is known if there is
	// data for it.
	success uint32
	isKnown bool
	// shown is how many queries are behind success, and how many of them failed.
	shown    sample
	compared compared
	// remembered is its success rate when it was taken out, updated by trials since.
	remembered policy.Optional[uint32]
	// priceNS is the cost of its failures and others the latency of the others, as of the last
	// tick.
	priceNS uint64
	others  policy.Optional[uint64]
}

func newRecord(now policy.Instant, stay uint32) *record {
	return &record{
		stay:         stay,
		isOffered:    true,
		course:       newCourse(now),
		history:      math.MaxUint64,
		failuresMax:  math.MaxUint32,
		progressAt:   now,
		pairAt:       now,
		nearNS:       math.MaxUint64,
		warmNS:       math.MaxUint64,
		pushShare:    whole,
		reportedAt:   never,
		incarnations: newIncarnations(),
		success:      whole,
	}
}

// sent notes that a query is sent, and returns what its ticket needs to know.
func (r *record) sent(now policy.Instant, isTrial bool) policy.Mark {
	switch r.waiting {
	case 0:
		r.progressAt = now
	case 1:
		r.pairAt = now
	}
	r.waiting = ints.Add(r.waiting, 1)
	r.inFlight = ints.Add(r.inFlight, 1)
	mark := policy.Mark{Stay: r.stay}
	if isTrial {
		mark.Trial = policy.Some(r.course.trialSent())
	}
	return mark
}

// answered notes the first head of a query's response.
func (r *record) answered(now policy.Instant, latencyNS uint64, outcome policy.Outcome) {
	r.givenUp()
	r.progressAt = now
	if r.course.isOut() {
		r.course.revive(now)
	}
	if now < after(r.wokenAt, latencyNS) {
		return
	}
	isGood := outcome == policy.OutcomeSuccess
	isNear := latencyNS <= r.warmNS
	if isGood {
		r.noteLatency(latencyNS)
		r.noteSlow(latencyNS)
		r.peaks.note(latencyNS)
	}
	if !r.course.isOut() && !r.course.isWhole() {
		r.course.answered(now, isGood, isNear)
	}
	if r.isWarmingUp {
		r.warmUp.answered(isGood && isNear)
	}
}

func (r *record) noteLatency(latencyNS uint64) {
	r.tickAnswers++
	r.tickLatencyNS = ints.Add(r.tickLatencyNS, latencyNS)
}

func (r *record) noteSlow(latencyNS uint64) {
	r.slow <<= 1
	if latencyNS > r.nearNS {
		r.slow |= 1
	}
}

// wake brings the replica back if it was out for silence, and returns true then. Answers to queries
// sent before still show the silence, so they do not count.
func (r *record) wake(now policy.Instant) bool {
	wakes := r.course.wake(now)
	if wakes {
		r.forget()
		r.wokenAt = now
	}
	return wakes
}

// givenUp notes that a query without a head will not get one.
func (r *record) givenUp() { r.waiting = ints.Sub(r.waiting, 1) }

// unanswered notes that a query broke off or timed out before it had a head.
func (r *record) unanswered(now policy.Instant, tookNS uint64, outcome policy.Outcome) {
	r.givenUp()
	switch {
	case outcome == policy.OutcomeTimedOut:
		// It would have taken longer.
		r.noteLatency(tookNS)
		r.noteSlow(tookNS)
	case outcome == policy.OutcomeBroken && !r.course.isOut() && !r.course.isWhole():
		r.course.answered(now, false, false)
	}
}

// ended notes the end of a query.
func (r *record) ended() { r.inFlight = ints.Sub(r.inFlight, 1) }

// broke takes back a response that started well in the bucket began and ended badly. run is the
// number of failures in a row before it.
func (r *record) broke(bucket, began uint64, run uint32, tookNS uint64, how policy.Outcome) {
	if !r.tells(how) {
		return
	}
	r.window.takeBack(began)
	if ints.Sub(bucket, began) <= 1 {
		r.history = r.history>>1 | 1<<63
		r.failuresInARow = ints.Add(r.failuresInARow, run)
	}
	r.booked(bucket, tookNS, how)
}

// tells reports whether an outcome is evidence about the replica. A timeout in a hurried fleet and
// a query that was given up are not.
func (r *record) tells(outcome policy.Outcome) bool {
	return outcome != policy.OutcomeDropped && (outcome != policy.OutcomeTimedOut || !r.isFleetHurried)
}

// booked books the result of a query: at its head, or at its end if it had none. It returns the
// number of failures in a row before it.
func (r *record) booked(bucket, tookNS uint64, outcome policy.Outcome) uint32 {
	run := r.failuresInARow
	if !r.tells(outcome) {
		return run
	}
	r.tickEnded = ints.Add(r.tickEnded, 1)
	switch {
	case outcome == policy.OutcomeSuccess:
		r.window.at(bucket).good++
		r.history = r.history<<1 | 1
		r.failuresInARow = 0
	case outcome.IsFailure():
		counts := r.window.at(bucket)
		counts.bad++
		counts.badNS = ints.Add(counts.badNS, tookNS)
		r.history <<= 1
		r.failuresInARow = ints.Add(r.failuresInARow, 1)
	case outcome == policy.OutcomePushedBack:
		r.tickPushed = ints.Add(r.tickPushed, 1)
	}
	return run
}

// run returns the number of failures in a row, if by the last tick's bounds it is not chance. It
// returns it only for every lookEvery-th failure, because the caller then compares all the others.
func (r *record) run() (run uint32, isBeyond bool) {
	run = r.failuresInARow
	return run, run >= r.failuresMax && (run-r.failuresMax)%lookEvery == 0
}

// lastEight returns how many of its last eight queries succeeded.
func (r *record) lastEight() int { return bits.OnesCount8(uint8(r.history)) }

// successBeforeRun returns its success rate before the current run of failures, so that the run
// does not explain itself.
func (r *record) successBeforeRun() uint32 {
	before := r.tally
	before.bad = ints.Sub(before.bad, r.failuresInARow)
	return successOf(&before, whole)
}

// reported takes in its answer to a probe, which replaces what it has reported before. It returns
// what reportCarried does.
func (r *record) reported(now policy.Instant, report *policy.LoadReport) bool {
	r.reportedAt = now
	r.reportedFailures = 0
	r.reportedLatency = policy.Optional[uint64]{}
	return r.reportCarried(now, report)
}

// reportCarried takes in a report with a response. What is absent there stays as the latest probe
// reported it. It returns true if the replica has restarted: its latency is forgotten. Its failures
// are not, since a failing replica could clear itself that way.
func (r *record) reportCarried(now policy.Instant, report *policy.LoadReport) bool {
	if report.ErrorMillionths.Known {
		r.reportedAt = now
		r.reportedFailures = min(report.ErrorMillionths.Value, whole)
	}
	if report.Latency > 0 {
		r.reportedLatency = policy.Some(uint64(report.Latency))
	}
	hasRestarted := report.Incarnation.Known && r.incarnations.named(now, report.Incarnation.Value)
	if hasRestarted {
		r.forgetLatency()
		r.course.revive(now)
	}
	return hasRestarted
}

func (r *record) forgetLatency() {
	r.latency = policy.Optional[uint64]{}
	r.slow = 0
	r.tickAnswers, r.tickLatencyNS = 0, 0
}

// forget forgets how its queries went.
func (r *record) forget() {
	r.window = window{}
	r.history = math.MaxUint64
	r.failuresInARow = 0
	r.forgetLatency()
	r.forgetRemembered()
	r.reportedFailures = 0
}

// startWarmUp gives it a share that grows with good answers, until endsAt at the latest.
func (r *record) startWarmUp(share uint32, endsAt policy.Instant) {
	r.isWarmingUp, r.warmUp = true, warmUp{share: share, endsAt: endsAt}
}

func (r *record) isPushingBack() bool { return r.pushShare < whole }

// share returns the part of the queries that it may get. If sparesNew, warm-up lowers the share;
// if sparesFull, pushback does.
func (r *record) share(sparesNew, sparesFull bool) uint32 {
	share := r.course.share
	if sparesNew && r.isWarmingUp {
		share = min(share, r.warmUp.share)
	}
	if sparesFull {
		share = min(share, r.pushShare)
	}
	return share
}

// tick takes in what happened since the last tick.
func (r *record) tick(now policy.Instant) {
	if r.tickAnswers > 0 {
		meanNS := r.tickLatencyNS / r.tickAnswers
		knownNS := meanNS
		if r.latency.Known {
			knownNS = r.latency.Value
		}
		r.latency = policy.Some(weighted(knownNS, latencySmoothing, meanNS, r.tickAnswers))
	}
	if r.tickPushed > 0 && r.tickPushed >= r.tickEnded/10 {
		r.pushShare = max(r.pushShare/10*7, pushShareMin)
	} else {
		r.pushShare = min(r.pushShare+whole/20, whole)
	}
	r.tickAnswers, r.tickLatencyNS = 0, 0
	r.peaks.tick(now)
	r.tickPushed, r.tickEnded = 0, 0
	if r.isWarmingUp && r.warmUp.tick(now) {
		r.isWarmingUp = false
	}
}

// weighted returns the mean of a and b with these weights, rounded down.
func weighted(a, weightA, b, weightB uint64) uint64 {
	highA, lowA := bits.Mul64(a, weightA)
	highB, lowB := bits.Mul64(b, weightB)
	low, carry := bits.Add64(lowA, lowB, 0)
	high, _ := bits.Add64(highA, highB, carry)
	// A mean is not larger than the larger of both, so that it has 64 bits.
	mean, _ := bits.Div64(high, low, weightA+weightB)
	return mean
}

// estimate estimates its success rate: its own queries, or its report if that is worse.
func (r *record) estimate(now policy.Instant, bucket uint64, fleet uint32) {
	r.tally = r.window.recent(bucket, enough)
	if r.course.isOut() {
		if r.remembered.Known {
			r.success = r.remembered.Value
		}
		r.isKnown = true
		return
	}
	prior := fleet
	if r.remembered.Known {
		prior = r.remembered.Value
	}
	isReported := r.reportedFailures > 0 && r.reportedAt != never &&
		since(now, r.reportedAt) < reportNSMax
	reported := whole
	if isReported {
		reported -= r.reportedFailures
	}
	r.success = min(successOf(&r.tally, prior), reported)
	count := r.tally.count()
	r.isKnown = count > 0 || isReported
	// A report does not name the number of queries behind it. It counts as if it covered those that
	// were sent from here.
	failed := uint64(count) * uint64(whole-reported) / uint64(whole)
	r.shown = sample{queries: uint64(count), failures: max(failed, uint64(r.tally.bad))}
}

// isConvicted reports whether it was out for failures and no trial has cleared it, so that failures
// need no new proof.
func (r *record) isConvicted() bool { return r.remembered.Known }

func (r *record) isInChoice() bool { return r.isOffered && !r.course.isOut() }

// remember keeps its success rate for as long as it is out. After a sudden stop the rate before it
// does not count: the replica is assumed to fail all queries, unless it had failed often in the 64
// queries before, too.
func (r *record) remember(isSudden bool) {
	failed := uint32(bits.OnesCount64(^r.history))
	run := min(r.failuresInARow, 64)
	remembered := uint32(0)
	switch {
	case !isSudden:
		// Its last queries show what it does now, before the window does.
		newest := uint32(bits.OnesCount16(uint16(r.history)))
		remembered = min(r.success, newest*(whole/16))
	case ints.Sub(failed, run) >= (64-run)/8:
		remembered = (64 - failed) * (whole / 64)
	}
	r.remembered = policy.Some(remembered)
}

// rememberTrial updates the remembered rate with the end of a trial.
func (r *record) rememberTrial(isGood bool) {
	if !r.remembered.Known {
		return
	}
	remembered := &r.remembered.Value
	if isGood {
		*remembered += whole/8 - *remembered/8
	} else {
		*remembered -= *remembered / 4
	}
}

func (r *record) forgetRemembered() { r.remembered = policy.Optional[uint32]{} }

// isSlow reports whether half of its last sixteen answers were slow. A mean could be made by a
// single answer.
func (r *record) isSlow() bool { return bits.OnesCount16(r.slow) >= 8 }

// withoutProgressNS returns how long at least two queries have waited without any answer. A single
// query may just be slow.
func (r *record) withoutProgressNS(now policy.Instant) uint64 {
	if r.waiting < 2 {
		return 0
	}
	return since(now, max(r.progressAt, r.pairAt))
}

// reportsAgainst reports whether its probes speak against a trial: it answered some before and none
// for spanNS, or reports that it is slow.
func (r *record) reportsAgainst(now policy.Instant, spanNS uint64) bool {
	return r.reportedAt != never && (since(now, r.reportedAt) > spanNS ||
		r.reportedLatency.Known && r.reportedLatency.Value > r.nearNS)
}

// successOf returns the success rate in millionths. As many more as pseudoQueries count with a rate
// of prior.
func successOf(t *tally, prior uint32) uint32 {
	good := uint64(t.good)*uint64(whole) + pseudoQueries*uint64(prior)
	return uint32(good / (uint64(t.count()) + pseudoQueries))
}
