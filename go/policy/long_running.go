package policy

import "github.com/slackwater/slackwater/go/internal/ints"

const (
	// ordinaryExcess is the largest excess with which all of a difference counts.
	ordinaryExcess = 2 * fine
	// excessMax is the largest excess. Beyond it almost nothing of a difference counts, and one that
	// is wrong must not last.
	excessMax = 64 * fine
	// excessStep: each report moves the excess down by this part of it, or up by twice as much.
	excessStep = 32
)

// longRunning is by what factor requests in flight take longer than those that end. The zero value
// is ordinary.
//
// Where there are long-running requests, such as streams, they are most of what is in flight. How
// many a replica has depends on chance and on minutes ago, not on how fast it is. By Little's law a
// replica with more of them looks slow. It then gets fewer queries, and looks slower still. So only
// a part counts of how a replica's mean latency differs from that of all:
//
//	excess = mean latency by Little's law / reported latency
//	part   = min(1, 2 / excess)
//
// A replica reports about the median latency of the queries that end. For exponential latencies the
// excess is 1.44, so all of a difference counts. The excess is one that a third of recent reports
// surpass, not the median: replicas that already look slow have few queries, and may report the
// latency of a long one.
type longRunning struct {
	// excess is in 1/1024. Less than 1 counts as 1.
	excess uint64
}

// learn takes in a report: the mean latency of its replica, in 1/1024 ns, and the reported latency.
func (l *longRunning) learn(meanLatency, reportedNS uint64) {
	excess := max(l.excess, fine)
	if meanLatency > ints.Mul(reportedNS, excess) {
		l.excess = min(excess+2*excess/excessStep, excessMax)
	} else {
		l.excess = excess - excess/excessStep
	}
}

// counted returns a replica's mean latency as it counts beside that of all.
func (l longRunning) counted(value, mean uint64) uint64 {
	if l.excess <= ordinaryExcess {
		return value
	}
	return ints.Towards(mean, value, ordinaryExcess, l.excess)
}
