package slackwatergrpc

import (
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	// carriedFresh is how old a report with a response may be to take the place of a probe. A probe
	// by gRPC costs as much as a call, and an endpoint that has just answered a call has reported
	// what changes from call to call.
	carriedFresh = 20 * time.Millisecond
	// answerFresh is how old the last answer to a probe may be for that. It has what changes slowly,
	// above all rates, which a server measures over 4 s.
	answerFresh = 250 * time.Millisecond
)

// latestReports are what an endpoint has reported last.
type latestReports struct {
	// answer is the report with which it last answered a probe, at answeredAt.
	answer     policy.LoadReport
	answeredAt policy.Instant
	// carried came with the last response, at carriedAt. Its RIF is that of other clients.
	carried   policy.LoadReport
	carriedAt policy.Instant
	// isAnswered and isCarried say whether there are such.
	isAnswered, isCarried bool
}

// noteCarried notes a report that came with a response, and how many of this client's calls are
// in flight without that one.
func (l *latestReports) noteCarried(now policy.Instant, report *policy.LoadReport, own uint32) {
	l.carried, l.carriedAt, l.isCarried = *report, now, true
	l.carried.RIF -= min(l.carried.RIF, own)
}

// noteAnswer notes the answer to a probe.
func (l *latestReports) noteAnswer(now policy.Instant, report *policy.LoadReport) {
	l.answer, l.answeredAt, l.isAnswered = *report, now, true
}

// current returns what the endpoint would answer to a probe now, if it has reported enough lately.
// Own is the number of this client's calls in flight there. An endpoint that drains is always
// probed.
func (l *latestReports) current(now policy.Instant, own uint32) (policy.LoadReport, bool) {
	if !l.isCarried || !l.isAnswered || l.answer.Draining ||
		now.Since(l.carriedAt) > carriedFresh || now.Since(l.answeredAt) > answerFresh {
		return policy.LoadReport{}, false
	}
	report := l.answer
	report.RIF = l.carried.RIF + min(own, ^l.carried.RIF)
	report.CapacityMilliRIF, report.Cost = l.carried.CapacityMilliRIF, l.carried.Cost
	return report, true
}
