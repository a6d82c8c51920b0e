package policy

import "github.com/slackwater/slackwater/go/internal/ints"

// yieldWindow is the number of queries for each estimate of a [reportYield].
const yieldWindow = 128

// reportYield is the rate at which reports actually arrive per query, which is below the configured
// one when probes are lost or skipped.
//
// At 10,000 queries a second over four replicas, a smallest interval of 1 ms leaves 0.4 reports per
// query where 3 were configured. A reuse limit without this correction would let the pool run dry.
type reportYield struct {
	queries    uint32
	reports    uint32
	rate       Millionths
	configured Millionths
}

func (y *reportYield) report() { y.reports = ints.Add(y.reports, 1) }

// query counts a query. It returns true if the rate has changed.
func (y *reportYield) query() bool {
	y.queries++
	if y.queries < yieldWindow {
		return false
	}
	// Idle probes may bring more reports than queries trigger. A tenth too few is chance in one
	// window.
	const rateLimit = 64 * uint64(One)
	measured := uint64(y.reports) * uint64(One) / yieldWindow
	before := y.rate
	y.rate = y.configured
	if measured < uint64(y.configured)*9/10 && measured <= rateLimit {
		y.rate = Millionths(measured)
	}
	y.queries, y.reports = 0, 0
	return y.rate != before
}
