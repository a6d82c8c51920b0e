package policy

// Mark is what package health needs to know about a query when it ends. It travels with the query's
// [Ticket]. The zero value is no mark.
type Mark struct {
	// Stay is the stay of the replica in which the query was sent: each time that it joins starts
	// one, counted from 1.
	Stay uint32
	// Trial is the number of the trial, if the query is one.
	Trial Optional[uint32]
	// Run is the number of failures in a row before the head.
	Run uint32

	headNS      uint64
	headOutcome Outcome
	hasHead     bool
}

// Head notes a head after this latency. It returns true if it is the first.
func (m *Mark) Head(latencyNS uint64, outcome Outcome) bool {
	if m.hasHead {
		return false
	}
	m.headNS, m.headOutcome, m.hasHead = latencyNS, outcome, true
	return true
}

// LatencyNS returns the latency of the first head in nanoseconds, or false if there was none.
func (m *Mark) LatencyNS() (uint64, bool) { return m.headNS, m.hasHead }

// BeganWell reports whether the head was a good one.
func (m *Mark) BeganWell() bool { return m.hasHead && m.headOutcome == OutcomeSuccess }

// Outcome returns the outcome of the query, given that of its end: that of its head, unless it
// broke off after a good one. A query given up after a good head is a success: the replica did its
// part.
func (m *Mark) Outcome(end Outcome) Outcome {
	switch {
	case m.BeganWell() && end == OutcomeDropped:
		return OutcomeSuccess
	case !m.hasHead || m.BeganWell():
		return end
	default:
		return m.headOutcome
	}
}
