package health

import (
	"math"
	"slices"
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

// fixed is a source that always draws the same.
type fixed uint64

func (f fixed) Draw() uint64 { return uint64(f) }

// randomFleet returns a fleet that chooses at random, with health around it.
func randomFleet(t *testing.T, settings Settings, replicas int) (*guarded, []policy.ReplicaID) {
	t.Helper()
	inner, err := policy.New("random", policy.DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	p, err := Guard(inner, settings)
	if err != nil {
		t.Fatal(err)
	}
	g := p.(*guarded)
	var ids policy.ReplicaIDs
	known := make([]policy.ReplicaID, replicas)
	for i := range known {
		known[i], _ = ids.Allocate()
		g.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: known[i]}, nil)
	}
	return g, known
}

func TestOthersCountWithTheWorseOfTheWindowAndItsLastTwoBuckets(t *testing.T) {
	good, bad := policy.OutcomeSuccess, policy.OutcomeFailed
	for _, c := range []struct {
		before, last policy.Outcome
		lastBucket   uint64
		success      uint32
	}{
		// 105/115, 5/15 and 15/115 with the five queries that count as the fleet's do.
		{good, bad, 8, 913_043}, {good, bad, 9, 333_333}, {good, bad, 10, 333_333}, {bad, good, 9, 130_434},
	} {
		g, replicas := randomFleet(t, DefaultSettings(), 4)
		for _, replica := range replicas[1:] {
			book(g.find(replica), 0, 100, c.before)
			book(g.find(replica), c.lastBucket, 10, c.last)
		}
		g.tick(policy.Instant(10 * g.bucketNS))
		if o := g.others(g.find(replicas[0])); o.success != policy.Some(c.success) {
			t.Errorf("bucket %d: %v, not %d", c.lastBucket, o.success, c.success)
		}
	}
}

func TestResultsAreForgottenAfterTheWindow(t *testing.T) {
	// To a sixteenth of it, 625 ms.
	for noted, success := range map[uint64]uint32{624: whole, 625: 500_000} {
		g, replicas := randomFleet(t, DefaultSettings(), 2)
		g.tick(at(noted))
		book(g.find(replicas[0]), g.bucket, 5, policy.OutcomeFailed)
		book(g.find(replicas[1]), g.bucket, 5, policy.OutcomeSuccess)
		g.tick(at(9_950))
		if found := g.find(replicas[0]).success; found != 500_000 {
			t.Errorf("within the window: %d", found)
		}
		g.tick(at(10_050))
		if found := g.find(replicas[0]).success; found != success {
			t.Errorf("noted at %d ms: %d, not %d", noted, found, success)
		}
	}
}

func TestStandingsAreSettledTenTimesASecondWhileAQueryIsInFlight(t *testing.T) {
	g, _ := randomFleet(t, DefaultSettings(), 2)
	expect := func(want policy.Optional[policy.Instant]) {
		t.Helper()
		if timeout, isSet := g.NextTimeout(); isSet != want.Known || timeout != want.Value {
			t.Errorf("timeout %d %v, not %v", timeout, isSet, want)
		}
	}
	none := policy.Optional[policy.Instant]{}
	expect(none)
	decision := g.Choose(at(10), &policy.Query{}, fixed(0), nil)
	expect(policy.Some(at(110)))
	g.Handle(at(109), policy.Event{Kind: policy.EventTimeout}, nil)
	expect(policy.Some(at(110)))
	g.Handle(at(110), policy.Event{Kind: policy.EventTimeout}, nil)
	expect(policy.Some(at(210)))
	g.HandleDone(at(120), decision.Pick.Ticket, policy.OutcomeSuccess)
	expect(none)
}

func TestOfTwoSuccessRatesTheBetterOneStandsForTheFleet(t *testing.T) {
	for failing := range 2 {
		g, replicas := randomFleet(t, DefaultSettings(), 2)
		book(g.find(replicas[failing]), 0, 5, policy.OutcomeFailed)
		book(g.find(replicas[1-failing]), 0, 5, policy.OutcomeSuccess)
		g.tick(at(100))
		if g.fleetSuccess != whole {
			t.Errorf("replica %d fails: %d", failing, g.fleetSuccess)
		}
	}
}

func TestWarmUpAndPushbackLowerSharesOfAtMostHalf(t *testing.T) {
	for _, pushesBack := range []bool{false, true} {
		for count, limited := range []int{0, 1, 2, 0, 0} {
			g, replicas := randomFleet(t, DefaultSettings(), 4)
			for _, replica := range replicas[:count] {
				r := g.find(replica)
				if pushesBack {
					book(r, 0, 1, policy.OutcomePushedBack)
					r.tick(at(100))
				} else {
					g.warmUp(r)
				}
			}
			g.refresh()
			if found := len(g.shares.less); found != limited {
				t.Errorf("%d of 4, pushback %v: %d are limited, not %d", count, pushesBack, found, limited)
			}
		}
	}
}

func TestARunOfFailuresIsComparedWithTheMedianOfTheOthersLastEight(t *testing.T) {
	for _, c := range []struct {
		others, failing int // failing ones have failed four of their last eight
		run             uint32
	}{{5, 2, 5}, {5, 3, 30}, {4, 2, 5}, {4, 3, 30}, {1, 0, 5}} {
		g, replicas := randomFleet(t, DefaultSettings(), 1+c.others)
		for _, replica := range replicas[1 : 1+c.failing] {
			r := g.find(replica)
			book(r, 0, 1, policy.OutcomeFailed)
			book(r, 0, 4, policy.OutcomeSuccess)
			book(r, 0, 3, policy.OutcomeFailed)
		}
		if g.isNoChance(replicas[0], c.run-1) || !g.isNoChance(replicas[0], c.run) {
			t.Errorf("%d of %d: not at %d", c.failing, c.others, c.run)
		}
	}
	if g, replicas := randomFleet(t, DefaultSettings(), 1); g.isNoChance(replicas[0], 1_000) {
		t.Errorf("it is compared with no others")
	}
}

func TestTheSmallestSharesAreKeptAndHeldBackOnesFirst(t *testing.T) {
	s := newShares()
	ranks := func() []uint64 {
		var ranks []uint64
		for _, less := range s.less {
			ranks = append(ranks, less.rank)
		}
		slices.Sort(ranks)
		return ranks
	}
	for share := uint32(200); share > 0; share-- {
		s.add(policy.ReplicaID(share), share-1, false)
	}
	for place, rank := range ranks() {
		if rank != 1<<32|uint64(place) {
			t.Fatalf("of 200, place %d has rank %x", place, rank)
		}
	}
	s.clear()
	for replica := range 110 {
		isHeldBack := replica >= 100
		share := whole / 10
		if isHeldBack {
			share = whole / 2
		}
		s.add(policy.ReplicaID(replica), share, isHeldBack)
	}
	found := ranks()
	if len(found) != sparedMax || found[9] != uint64(whole/2) || found[10] != 1<<32|uint64(whole/10) {
		t.Errorf("held back and new ones: %x", found)
	}
	s.clear()
	if s.add(1, whole, true); len(s.less) != 0 {
		t.Errorf("one with its whole share is spared")
	}
}

func TestAQueryAvoidsAReplicaWithOneMinusItsShare(t *testing.T) {
	g, replicas := randomFleet(t, DefaultSettings(), 2)
	s := newShares()
	s.add(replicas[0], whole/4, true)
	for draw, isAvoided := range map[fixed]bool{0: false, 1<<62 - 1: false, 1 << 62: true} {
		found := s.avoided(g.Fleet(), &policy.Query{}, draw)
		if slices.Equal(found, replicas[:1]) != isAvoided {
			t.Errorf("draw %d: avoids %v", draw, found)
		}
	}
	pinned := policy.Query{Pinned: policy.Some(replicas[0])}
	if found := s.avoided(g.Fleet(), &pinned, fixed(math.MaxUint64)); len(found) != 0 {
		t.Errorf("a pinned query avoids %v", found)
	}
	tried := policy.Query{Avoid: replicas[1:]}
	if found := s.avoided(g.Fleet(), &tried, fixed(math.MaxUint64)); !slices.Equal(found, replicas[1:]) {
		t.Errorf("nothing is left for a query that avoids %v", found)
	}
}

func TestAQueryThatHasTriedTooManySparesNone(t *testing.T) {
	g, replicas := randomFleet(t, DefaultSettings(), 100)
	s := newShares()
	for _, replica := range replicas[:64] {
		s.add(replica, 0, true)
	}
	for tried, avoided := range map[int]int{16: 80, 17: 17} {
		query := policy.Query{Avoid: replicas[64 : 64+tried]}
		if found := s.avoided(g.Fleet(), &query, fixed(math.MaxUint64)); len(found) != avoided {
			t.Errorf("after %d tries, %d are avoided, not %d", tried, len(found), avoided)
		}
	}
}

// leaveOne returns a fleet of four that has saved all trials, of which the second has left at 0.
// Its trial is due at 1 s.
func leaveOne(t *testing.T, why cause, shadowTrials bool) (*guarded, policy.ReplicaID) {
	t.Helper()
	settings := DefaultSettings()
	settings.ShadowTrials = shadowTrials
	g, replicas := randomFleet(t, settings, 4)
	for range 1_000 {
		g.trials.earn()
	}
	g.leave(replicas[1], why, false)
	return g, replicas[1]
}

func isDueAt(g *guarded, milliseconds uint64) bool {
	g.latest = at(milliseconds)
	_, isDue := g.dueForTrial(&policy.Query{})
	return isDue
}

func TestTheTrialThatIsOverdueTheLongestIsFirst(t *testing.T) {
	for _, first := range []int{0, 1} {
		g, replicas := randomFleet(t, DefaultSettings(), 4)
		for range 1_000 {
			g.trials.earn()
		}
		g.leave(replicas[first], byErrors, false)
		g.latest = at(100)
		g.leave(replicas[1-first], byErrors, false)
		g.latest = at(2_000)
		if due, _ := g.dueForTrial(&policy.Query{}); due != replicas[first] {
			t.Errorf("%v is due, not %v", due, replicas[first])
		}
		query := policy.Query{Avoid: replicas[first : first+1]}
		if due, _ := g.dueForTrial(&query); due != replicas[1-first] {
			t.Errorf("%v is due for a query that avoids %v", due, replicas[first])
		}
		if _, isDue := g.dueForTrial(&policy.Query{Attempt: policy.AttemptRetry}); isDue {
			t.Errorf("a retry is a trial")
		}
	}
}

func TestTrialsWaitWhileProbesShowASlowReplica(t *testing.T) {
	for why, waits := range map[cause]bool{bySlowness: true, bySilence: true, byErrors: false} {
		g, replica := leaveOne(t, why, false)
		r := g.find(replica)
		r.nearNS = 0
		r.reported(at(900), &policy.LoadReport{Latency: 9_000 * ms})
		for milliseconds, isDue := range map[uint64]bool{
			999: false, 1_000: !waits, 8_999: !waits, 9_000: true, // twice the longest back-off
		} {
			if isDueAt(g, milliseconds) != isDue {
				t.Errorf("cause %d: due %v at %d ms", why, !isDue, milliseconds)
			}
		}
	}
	g, replica := leaveOne(t, bySlowness, false)
	g.find(replica).reported(at(2_000), &policy.LoadReport{})
	if !isDueAt(g, 3_000) || isDueAt(g, 3_001) {
		t.Errorf("a second without answers to probes does not count")
	}
}

func TestAQueryIsATrialInPlaceOfACopyThatDoesNotCome(t *testing.T) {
	g, replica := leaveOne(t, byErrors, true)
	g.latest = at(1_000)
	if due, _ := g.dueForCopy(); due != replica || !g.WantsTrial() {
		t.Errorf("no copy is wanted")
	}
	if isDueAt(g, 4_999) || !isDueAt(g, 5_000) {
		t.Errorf("a query does not wait for a copy as long as the longest back-off")
	}
	for _, c := range []struct{ isQuery, isCopy bool }{{true, true}, {false, true}, {false, false}} {
		g.trials.spend() // three were saved
		if isDueAt(g, 5_000) != c.isQuery || g.WantsTrial() != c.isCopy {
			t.Errorf("with %d millionths saved, not %+v", g.trials.saved, c)
		}
	}
}

func TestATrialPassesWhileItsResponseRunsASecondAfterAGoodHead(t *testing.T) {
	g, replica := leaveOne(t, byErrors, false)
	c := &g.find(replica).course
	c.trialBegan(at(2_000), c.trialSent(), 1)
	for _, step := range []struct{ ms, passed uint64 }{{2_999, 0}, {3_000, 1}, {9_000, 1}} {
		g.latest = at(step.ms)
		g.judgeTrial(replica)
		if g.counters.TrialsPassed != step.passed {
			t.Errorf("%d passed at %d ms", g.counters.TrialsPassed, step.ms)
		}
	}
}

func TestTrialsAreAPartOfQueriesWithABurstOfThree(t *testing.T) {
	trials := newTokens(10_000, savedMax)
	sent := 0
	for range 10_000 {
		if trials.earn(); trials.has(1) {
			trials.spend()
			sent++
		}
	}
	if sent != 100 {
		t.Errorf("%d trials for 10,000 queries, not 1 %%", sent)
	}
	for range 10_000 {
		trials.earn()
	}
	if !trials.has(savedMax) || trials.has(savedMax+1) {
		t.Errorf("%d millionths are saved", trials.saved)
	}
}

func TestAnExplanationNamesTheReplicasThatHealthKeepsOut(t *testing.T) {
	g, out := leaveOne(t, bySlowness, false)
	limited := g.members.Members()[2]
	g.find(limited).course.keepLimited(at(0), bySlowness)
	explanation := policy.NewExplanation()
	g.Choose(at(500), &policy.Query{}, policy.NewSplitMix64(1), explanation)
	want := []policy.Out{
		{Replica: out, Why: "on_probation"},
		{Replica: limited, Why: "held_back", ShareMillionths: sparedShare},
	}
	if !slices.Equal(explanation.Outs(), want) || explanation.Available() != 3 {
		t.Errorf("%+v, %d available", explanation.Outs(), explanation.Available())
	}
	decision := g.Choose(at(2_000), &policy.Query{}, policy.NewSplitMix64(1), explanation)
	if decision.Pick.Reason != policy.ReasonTrial || explanation.Available() != 3 {
		t.Errorf("%v, %d available", decision.Pick.Reason, explanation.Available())
	}
	if counters := g.Counters(); counters.Picks.Of(policy.ReasonTrial) != 1 || counters.Health.Trials != 1 {
		t.Errorf("%+v", counters)
	}
}
