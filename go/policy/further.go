package policy

import "github.com/slackwater/slackwater/go/internal/ints"

// further are the reports besides the newest that are compared while few come, or most queries are
// this client's.
//
// A rule that compares the newest reports alone needs new ones: if few come for each query, the
// same replicas are compared again and again, and get more than their share. So it is where probes
// are lost, where their shortest interval or their largest number bounds them, and while probing
// backs off. Then each choice also compares eight others, which are the next ones in turn: an idle
// replica is found though its report is old. So it does where most queries are this client's own,
// because they count exactly however old a report is.
type further struct {
	// reports came since they were last counted.
	reports uint32
	// sent is how many queries this client had sent then.
	sent uint64
	// enoughUntil: once this client has sent more queries than this, too few have come. It is 0 while
	// further ones are needed.
	enoughUntil uint64
	// from is the first report to compare next, counted from the first that is not among the
	// newest.
	from int
}

const (
	// furtherMax is the number of reports that are compared.
	furtherMax = 8
	// furtherCounted is the number of reports that are counted at a time.
	furtherCounted = 64
	// furtherQueriesMax is the most queries in which as many come that are enough: four in three
	// queries. Half a probe a query is enough where each response carries a report.
	furtherQueriesMax = 48
)

// reported counts a report that comes in, after this client has sent this many queries, and with
// whether it sends most of all.
func (f *further) reported(sent uint64, sendsMost bool) {
	if f.reports++; f.reports >= furtherCounted {
		f.enoughUntil = 0
		if !sendsMost && ints.Sub(sent, f.sent) <= furtherQueriesMax {
			f.enoughUntil = ints.Add(sent, furtherQueriesMax)
		}
		f.reports, f.sent = 0, sent
	}
}

// areNeeded reports whether further reports are compared.
func (f *further) areNeeded() bool { return f.enoughUntil == 0 }

// count returns how many are compared, of all reports, of which the first are the newest.
func (f *further) count(newest, all int) int {
	if !f.areNeeded() {
		return 0
	}
	return min(all-newest, furtherMax)
}

// place returns where the nth of them is.
func (f *further) place(nth, newest, all int) int { return newest + (f.from+nth)%(all-newest) }

// pass moves on to the reports after those, as they are needed.
func (f *further) pass(newest, all int) {
	f.enoughUntil = 0
	f.from = (f.from + furtherMax) % max(all-newest, 1)
}
