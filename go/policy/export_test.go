package policy

import "time"

// OwnTracker lets tests compare an [ownTracker] with package load, which imports this package.
type OwnTracker struct{ tracker ownTracker }

// OwnArrival is a query in flight.
type OwnArrival struct{ arrival localArrival }

func (o *OwnTracker) Arrive(now Instant) OwnArrival { return OwnArrival{o.tracker.arrive(now)} }

func (o *OwnTracker) Head(now Instant, arrival *OwnArrival, outcome Outcome) {
	o.tracker.headReady(now, &arrival.arrival, endOf(outcome))
}

func (o *OwnTracker) Finish(now Instant, arrival OwnArrival, outcome Outcome) {
	o.tracker.finish(now, arrival.arrival, endOf(outcome))
}

func (o *OwnTracker) RIFTimeNS(now Instant) uint64 { return o.tracker.rifTimeNS(now) }

func (o *OwnTracker) Latency(now Instant) time.Duration { return duration(o.tracker.latencyNS(now)) }
