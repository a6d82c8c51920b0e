package load

import (
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	// CapacityStep is the interval of readings of a [CapacityEstimator]. Between two readings
	// neighbours hardly change, and a few queries end.
	CapacityStep = 50 * time.Millisecond
	// CapacityQuietStep is the longest delay of a reading after the last one, if
	// [CapacityEstimator.Look] is called then.
	CapacityQuietStep = time.Second

	// busyParts: a replica was quiet if it had something in flight for less than 1 part in this many.
	busyParts = 10
	// quietEnds: it was not quiet if this many queries ended. That is half of the samples that a
	// tracker keeps by default, so that samples are normally used before they are overwritten.
	quietEnds = 128
	// settledQueries: after this many queries since the first reading the estimates have settled.
	// Before that, each query adds much of what is known.
	settledQueries = 300
)

// Look is what a [CapacityEstimator] should do now.
type Look struct {
	// Reads says that a reading must be taken.
	Reads bool
	// IsQuiet says that hardly anything has happened since the last reading: something was in flight
	// for less than a tenth of the time, and fewer than 128 queries ended. The next look is not
	// urgent. It is false before the first reading.
	IsQuiet bool
}

// pace is how much has happened since the last reading.
type pace uint8

const (
	paceIdle pace = iota // nothing was in flight
	paceQuiet
	paceBusy
)

// Due reports whether another look is due, and a reading unless it is delayed.
func (e *CapacityEstimator) Due(now policy.Instant) bool {
	return !e.hasRead || nsSince(now, e.last.at) >= uint64(CapacityStep)
}

// Look says whether to take a reading now; call it first where reading is expensive. A due reading
// is delayed, until at most [CapacityQuietStep] after the last, while nothing is in flight, and,
// once 300 queries have ended, while the replica is quiet. Idle time is noted here without a
// reading: the next span begins after it, except for the CPU time that the server used on its own
// meanwhile.
func (e *CapacityEstimator) Look(now policy.Instant, tracker *Tracker) Look {
	if !e.hasRead {
		return Look{Reads: true}
	}
	isDue := e.Due(now)
	pace := e.last.pace(now, tracker)
	mayWait := nsSince(now, e.last.takenAt) < uint64(CapacityQuietStep) &&
		(pace == paceIdle || pace == paceQuiet && e.ended >= settledQueries)
	if pace == paceIdle && isDue && mayWait {
		e.last.at = now
	}
	return Look{Reads: isDue && !mayWait, IsQuiet: pace != paceBusy}
}

// wasIdle reports whether nothing was in flight for some time after the reading.
func (r *capacityReading) wasIdle() bool { return r.at != r.takenAt }

func (r *capacityReading) pace(now policy.Instant, tracker *Tracker) pace {
	busyNS := tracker.BusyTime(now) - r.busyNS
	ended := tracker.samples.recorded() - r.recorded
	switch {
	case busyNS == 0 && ended == 0:
		return paceIdle
	case busyNS < nsSince(now, r.at)/busyParts && ended < quietEnds:
		return paceQuiet
	}
	return paceBusy
}
