package policy

import (
	"math"
	"testing"
	"time"
)

// reportShare takes in this many reports of this rate from ten replicas, which have answered 100
// queries a second of this client.
func reportShare(share *ownShare, second int, rate Optional[uint32], reports int) {
	for share.answered < uint64(second)*100 {
		share.queryOver(OutcomeSuccess)
	}
	for range reports {
		now := Instant(0).plus(uint64(second) * uint64(time.Second))
		share.reported(now, rate, 10)
	}
}

// perSecond is a query rate.
func perSecond(rate uint32) Optional[uint32] { return Some(rate * 1000) }

// shareAfter is what is known after a minute of such reports.
func shareAfter(rate uint32) *ownShare {
	share := &ownShare{}
	for second := range 60 {
		reportShare(share, second, perSecond(rate), 64)
	}
	return share
}

// TestClientOfTwoThirdsOfAllQueriesSendsMost also checks what lacks for that.
func TestClientOfTwoThirdsOfAllQueriesSendsMost(t *testing.T) {
	for rate, expected := range map[uint32]bool{0: true, 10: true, 15: true, 16: false, 20: false} {
		if found := shareAfter(rate).isMost(); found != expected {
			t.Errorf("at a rate of %d: %v", rate, found)
		}
	}
	share := &ownShare{}
	if reportShare(share, 0, perSecond(10), 64); share.isMost() {
		t.Error("it sends most before its queries were counted for some time")
	}
	if reportShare(share, 1, perSecond(10), 64); !share.isMost() {
		t.Error("it does not send most after a second")
	}
}

// TestOthersSendAlikeUpToFourForEachOwn has ten queries a second of this client at each replica.
func TestOthersSendAlikeUpToFourForEachOwn(t *testing.T) {
	for rate, expected := range map[uint32]uint64{5: 0, 10: 0, 15: 512, 30: 2_048, 50: 4_096, 500: 4_096} {
		if found := shareAfter(rate).othersAlike(); found != expected {
			t.Errorf("at a rate of %d: %d", rate, found)
		}
	}
	if found := new(ownShare).othersAlike(); found != 0 {
		t.Errorf("unknown: %d", found)
	}
}

// TestMeanOf64ReportsCounts checks a window of reports, and the largest values.
func TestMeanOf64ReportsCounts(t *testing.T) {
	share := shareAfter(10)
	if reportShare(share, 60, perSecond(40), 63); !share.isMost() {
		t.Error("it does not send most after 63 reports of a higher rate")
	}
	if reportShare(share, 60, perSecond(40), 1); share.isMost() {
		t.Error("it sends most after 64 reports of a higher rate")
	}
	reportShare(share, 61, perSecond(40), 16)
	if reportShare(share, 61, perSecond(0), 48); !share.isMost() {
		t.Error("it does not send most where the mean rate is as low as before")
	}
	share.answered = math.MaxUint64
	for range 128 {
		share.reported(math.MaxUint64, Some(uint32(math.MaxUint32)), math.MaxInt)
	}
	if share.isMost() {
		t.Error("it sends most of more queries than can be counted")
	}
}

// TestReplicasWithoutARateHaveAsManyQueriesAsTheOthers holds while half of the reports have one.
func TestReplicasWithoutARateHaveAsManyQueriesAsTheOthers(t *testing.T) {
	for _, of := range []struct {
		rated    int
		rate     uint32
		expected bool
	}{{32, 15, true}, {32, 16, false}, {31, 10, false}, {0, 0, false}} {
		share := shareAfter(10)
		share.others = Optional[uint64]{}
		if !of.expected {
			share.others = Some(uint64(0))
		}
		reportShare(share, 60, Optional[uint32]{}, 64-of.rated)
		if reportShare(share, 60, perSecond(of.rate), of.rated); share.isMost() != of.expected {
			t.Errorf("%d of 64 at %d: %v", of.rated, of.rate, share.isMost())
		}
	}
}

// TestOnlyQueriesThatAreAnsweredCount: copies that are dropped, for example, do not.
func TestOnlyQueriesThatAreAnsweredCount(t *testing.T) {
	share := &ownShare{}
	for _, outcome := range []Outcome{OutcomeSuccess, OutcomeFailed} {
		share.queryOver(outcome)
	}
	for _, outcome := range []Outcome{
		OutcomeBroken, OutcomeDropped, OutcomeNoConnection, OutcomePushedBack, OutcomeTimedOut,
	} {
		share.queryOver(outcome)
	}
	if share.answered != 2 {
		t.Errorf("%d count", share.answered)
	}
}

// TestClientThatSendsMostProbesAtTheLowestRate checks each bound.
func TestClientThatSendsMostProbesAtTheLowestRate(t *testing.T) {
	rule := expectedDelay{}
	for _, of := range []struct{ most, least, expected Millionths }{
		{3 * One, One, One}, {3 * One, 4 * One, 3 * One}, {3 * One, 0, One / 2}, {One / 4, 0, One / 4},
	} {
		settings := PrequalSettings{ProbeRate: of.most, ProbeRateMin: of.least}
		if found := rule.probeRate(0, true, &settings); found != of.expected {
			t.Errorf("%+v: %d", of, found)
		}
	}
}

func TestReplicasThatCarryLessThanOneRequestAreProbedAsWithoutReports(t *testing.T) {
	settings := DefaultSettings()
	for millis, expected := range map[uint64]Millionths{
		999: settings.Prequal.ProbeRate, 1_000: settings.ShortestExpectedDelay.ProbeRate,
	} {
		rule := expectedDelay{settings: settings.ShortestExpectedDelay}
		rule.table.capacities = sum{count: 2, sum: 2 * millis}
		if found := rule.probeRate(One, false, &settings.Prequal); found != expected {
			t.Errorf("%d thousandths: %d", millis, found)
		}
	}
}
