package policy

// Counters are counts since the policy was created. They only rise.
type Counters struct {
	// Picks counts picks by the rule that decided.
	Picks ReasonCounts
	// NoReplica counts queries for which there was no replica.
	NoReplica uint64
	// ProbesSent counts probes that were returned to be sent.
	ProbesSent uint64
	// ProbesUnsent counts probes that could not be sent, through no fault of the replica.
	ProbesUnsent uint64
	// ProbesAnswered counts probes that were answered in time.
	ProbesAnswered uint64
	// ProbesLost counts probes that failed, or whose deadline passed.
	ProbesLost uint64
	// ReportsLate counts answers that came after their probe's deadline; each of these probes is
	// also counted as lost. In a synchronous round: answers that the choice did not wait for.
	ReportsLate uint64
	// ReportsUnknown counts answers from replicas that had left the fleet.
	ReportsUnknown uint64
	// ProbesSkippedInterval counts probes not sent because the replica was probed less than the
	// smallest interval ago or, if it is unprobed, answered for.
	ProbesSkippedInterval uint64
	// ProbesSkippedOutstanding counts probes not sent because one to the same replica was in flight.
	ProbesSkippedOutstanding uint64
	// ProbesSkippedCap counts probes not sent because too many were in flight or waiting to be sent.
	ProbesSkippedCap uint64
	// ProbesSkippedRate counts probes not sent because of the limit of probes per second.
	ProbesSkippedRate uint64
	// ProbesBackedOff counts probes that queries did not trigger, because probes showed an overload.
	ProbesBackedOff uint64
	// ProbesIdle counts probes that were triggered because none had been sent for long.
	ProbesIdle uint64
	// ProbesLocal counts probes of unprobed replicas, answered from the client's own measurements.
	ProbesLocal uint64
	// RemovedSpent counts reports removed from the pool because their uses were spent.
	RemovedSpent uint64
	// RemovedExpired counts reports removed because of their age.
	RemovedExpired uint64
	// RemovedOldest counts reports removed by rate as the oldest.
	RemovedOldest uint64
	// RemovedWorst counts reports removed by rate as the worst.
	RemovedWorst uint64
	// RemovalsWithheld counts removals by rate that would have left fewer than four reports.
	RemovalsWithheld uint64
	// Evicted counts reports evicted for a newer one from a full pool.
	Evicted uint64
	// Replaced counts reports replaced by a newer one of the same replica.
	Replaced uint64
	// Rounds counts finished synchronous rounds.
	Rounds uint64
	// ProbingNS is the time that queries spent in synchronous rounds, in nanoseconds.
	ProbingNS uint64
	// Health are the counts of health; all zero without it.
	Health HealthCounters
}
