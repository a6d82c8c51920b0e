package policy

// Ticket is a query in flight. Return it with [Policy.HandleDone] exactly once: a query that never
// ends stays in flight forever. A ticket is a value, and has no meaning for another policy than the
// one that issued it.
type Ticket struct {
	replica ReplicaID
	sentAt  Instant
	// local is the query as this client's own tracker of an unprobed replica saw it.
	local localArrival
	// head is the head of the response, once it has come.
	head head
	// Partition is the data that package keys keeps with the query: the partition of its key.
	// Callers leave it alone.
	Partition Optional[uint16]
	// Measured is the data that package keys keeps with the query: whether its latency has been
	// measured. Callers leave it alone.
	Measured bool
	// Health is the data that package health keeps with the query. Policies do not use it, and
	// callers leave it alone.
	Health Mark
}

// Replica returns the replica that the query goes to.
func (t *Ticket) Replica() ReplicaID { return t.replica }

// SentAt returns when it was picked.
func (t *Ticket) SentAt() Instant { return t.sentAt }

// head is the head of a response, as a policy that learns latencies keeps it until the query's end.
type head struct {
	// ns is the time from the pick to the head.
	ns      uint64
	outcome Outcome
	arrived bool
}

// failed reports whether it was not the head of a good answer, so that its latency is not a sample.
func (h head) failed() bool { return h.outcome != OutcomeSuccess }

// endLatency notes that latency ends now, at the head of the response or else at the query's end.
// It returns false if it had ended before.
func (t *Ticket) endLatency(now Instant, outcome Outcome) bool {
	if t.head.arrived {
		return false
	}
	t.head = head{ns: now.nsSince(t.sentAt), outcome: outcome, arrived: true}
	return true
}
