package policy

// Outcome is how a query ended, as the client sees it.
type Outcome uint8

// The outcomes.
const (
	// OutcomeSuccess: the replica answered.
	OutcomeSuccess Outcome = iota
	// OutcomeFailed: the replica answered with an error: a status of 500 or more, or a gRPC status
	// that blames the server.
	OutcomeFailed
	// OutcomeTimedOut: the replica did not answer in time.
	OutcomeTimedOut
	// OutcomeBroken: the replica broke off: a reset, or a connection closed before the response was
	// whole.
	OutcomeBroken
	// OutcomePushedBack: the replica rejected the query and allows a later retry. It is a sign of
	// load, not of failure. Its latency is not a sample.
	OutcomePushedBack
	// OutcomeNoConnection: there was no connection to the replica, so it never received the query.
	OutcomeNoConnection
	// OutcomeDropped: the client gave up. It shows nothing about the replica.
	OutcomeDropped
)

var outcomeNames = [...]string{
	"success", "failed", "timed_out", "broken", "pushed_back", "no_connection", "dropped",
}

// String returns the outcome's name, such as timed_out.
func (o Outcome) String() string { return nameOf(outcomeNames[:], int(o)) }

// isAnswer is whether the replica answered the query, be it with an error. The query rate that it
// reports counts such queries, and also those that break off after their head.
func (o Outcome) isAnswer() bool { return o == OutcomeSuccess || o == OutcomeFailed }

// IsFailure reports whether the query failed and its replica is to blame. A pushback is not a
// failure, and a query that the client gave up shows nothing.
func (o Outcome) IsFailure() bool {
	switch o {
	case OutcomeFailed, OutcomeTimedOut, OutcomeBroken, OutcomeNoConnection:
		return true
	}
	return false
}

// nameOf returns a name from a list, or unknown.
func nameOf(names []string, index int) string {
	if index < len(names) {
		return names[index]
	}
	return "unknown"
}
