package policy

import "testing"

const fineMS = uint64(ms) * fine

func TestMeanOfOwnLatenciesIsOverSixteenQueries(t *testing.T) {
	var own learned
	for range 200 {
		own.learnOwn(0, uint64(10*ms), sum{})
	}
	own.learnOwn(0, uint64(26*ms), sum{})
	if found, known := own.meanLatency(); !known || found != 11*fineMS {
		t.Errorf("%d, known: %v", found, known)
	}
}

func TestFirstOwnQueryCountsAsAFifth(t *testing.T) {
	var table learnedTable
	table.add(0)
	table.add(1)
	check := func(replica ReplicaID, latency, expected uint64) {
		t.Helper()
		table.handleOwnLatency(0, replica, latency, false)
		of := table.of(replica)
		if found, known := of.meanLatency(); !known || found != expected {
			t.Errorf("%d, known: %v", found, known)
		}
	}
	// Nothing else is known.
	check(0, uint64(10*ms), 10*fineMS)
	// The mean of the others counts as four queries.
	check(1, uint64(20*ms), 12*fineMS)
	// The other is at 10: a sixth of at most 40.
	check(1, uint64(1_000*ms), 12*fineMS+28*fineMS/6)
}

func TestFailureCountsIfItTookLongerThanUsual(t *testing.T) {
	var table learnedTable
	table.add(0)
	table.add(1)
	for range 8 {
		table.handleOwnLatency(0, 0, uint64(10*ms), false)
	}
	for _, of := range []struct {
		took     Instant
		expected uint64
	}{
		// It may have failed at once.
		{1, 0}, {10, 0}, {25, 13},
		// That is no longer than its own mean.
		{13, 13}, {19, 14},
	} {
		table.handleOwnLatency(0, 1, uint64(of.took*ms), true)
		own := table.of(1)
		if found, known := own.meanLatency(); found != of.expected*fineMS || known != (of.expected > 0) {
			t.Errorf("after %d ms: %d, known: %v", of.took, found, known)
		}
	}
}

func TestMeanGoesOnWhenTheReplicaBeginsToAnswer(t *testing.T) {
	var table learnedTable
	table.add(0)
	// One own query counts, and so do reports after it.
	table.handleOwnLatency(0, 0, uint64(10*ms), false)
	l := table.handleReport(10*ms, &latestReport{rif: 2, latencyNS: uint64(18 * ms), queryRateMillis: 100_000})
	// 2 in flight at 100 queries a second are 20 ms, of which an eighth counts.
	if found, known := l.meanLatency(); !known || found/(fineMS/100) != 1_125 {
		t.Errorf("%d, known: %v", found, known)
	}
	if l.own || l.reports != learnedMin {
		t.Errorf("%+v", l)
	}
}

func TestForgottenLatencyIsLearnedAnewFromEightReports(t *testing.T) {
	for _, rate := range []uint32{0, 100_000} {
		var table learnedTable
		table.add(0)
		table.handleOwnLatency(0, 0, uint64(50*ms), false)
		table.handleReport(40_000*ms, &latestReport{local: true})
		for report := range 8 {
			l := table.handleReport(40_000*ms, &latestReport{
				rif: 2, latencyNS: uint64(20 * ms), queryRateMillis: rate,
			})
			found, known := l.meanLatency()
			if known != (report == 7) || known && found/(fineMS/100) != 2_000 && found/(fineMS/100) != 1_999 {
				t.Errorf("report %d at %d: %d, known: %v", report, rate, found, known)
			}
		}
	}
}
