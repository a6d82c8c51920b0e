package health

import (
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

// tryOne returns a fleet of which the second replica is out, and the ticket of its trial at 1 s.
func tryOne(t *testing.T, why cause) (*guarded, *record, policy.Ticket) {
	t.Helper()
	g, replica := leaveOne(t, why, false)
	// It is not judged before the end of the test.
	g.latest, g.tickAt = at(1_000), at(60_000)
	decision := g.Choose(at(1_000), &policy.Query{}, fixed(0), nil)
	if decision.Pick.Ticket.Replica() != replica || decision.Pick.Reason != policy.ReasonTrial {
		t.Fatalf("no trial: %+v", decision.Pick)
	}
	r := g.find(replica)
	r.remembered = policy.Some[uint32](400_000)
	r.nearNS, r.warmNS = 100*ms, 50*ms
	return g, r, decision.Pick.Ticket
}

func TestWhatATrialShows(t *testing.T) {
	for _, c := range []struct {
		name       string
		why        cause
		latencyMS  uint64
		outcome    policy.Outcome
		result     trialResult
		remembered uint32
	}{
		{"good", byErrors, 10, policy.OutcomeSuccess, trialPassed, 475_000},
		{"good and slow, after failures", byErrors, 101, policy.OutcomeSuccess, trialPassed, 475_000},
		{"good and slow, after slowness", bySlowness, 101, policy.OutcomeSuccess, trialFailed, 475_000},
		{"fast enough, after slowness", bySlowness, 100, policy.OutcomeSuccess, trialPassed, 475_000},
		{"failed", byErrors, 10, policy.OutcomeFailed, trialFailed, 300_000},
		{"pushed back", byErrors, 10, policy.OutcomePushedBack, trialFailed, 400_000},
		{"given up", byErrors, 50, policy.OutcomeDropped, trialVoid, 400_000},
		{"given up late", byErrors, 51, policy.OutcomeDropped, trialFailed, 400_000},
	} {
		g, r, ticket := tryOne(t, c.why)
		g.HandleDone(at(1_000+c.latencyMS), ticket, c.outcome)
		if r.remembered.Value != c.remembered {
			t.Errorf("%s: %d is remembered", c.name, r.remembered.Value)
		}
		result := trialFailed
		switch {
		case g.counters.TrialsPassed == 1:
			result = trialPassed
		case r.course.isVoid:
			result = trialVoid
		}
		if result != c.result || (result == trialFailed) != (r.course.backOffNS == 2_000*ms) {
			t.Errorf("%s: result %d, back-off %d", c.name, result, r.course.backOffNS)
		}
	}
}

func TestATrialThatIsGivenUpAfterAGoodHeadHasPassed(t *testing.T) {
	g, _, ticket := tryOne(t, byErrors)
	g.HandleHead(at(1_010), &ticket, policy.OutcomeSuccess)
	g.HandleDone(at(1_020), ticket, policy.OutcomeDropped)
	if g.counters.TrialsPassed != 1 {
		t.Errorf("it has not passed")
	}
}

func TestATrialWithABadHeadDoesNotPassWhileItRuns(t *testing.T) {
	g, r, ticket := tryOne(t, byErrors)
	g.HandleHead(at(1_010), &ticket, policy.OutcomeFailed)
	g.latest = at(9_000)
	g.judgeTrial(ticket.Replica())
	if g.counters.TrialsPassed != 0 || !r.course.isTried {
		t.Errorf("it has ended")
	}
	g.HandleDone(at(9_000), ticket, policy.OutcomeSuccess)
	if g.counters.TrialsPassed != 0 || r.course.isTried {
		t.Errorf("it has not failed")
	}
}

func TestAQueryWhoseReplicaIsNotAvailableIsATrialOfThatOneOrElseOfAnother(t *testing.T) {
	g, first := leaveOne(t, byErrors, false)
	second, third := g.members.Members()[2], g.members.Members()[3]
	g.latest = at(100)
	g.leave(second, byErrors, false)
	expect := func(milliseconds uint64, own, expected policy.ReplicaID) {
		t.Helper()
		g.latest = at(milliseconds)
		due, isDue := g.dueForTrial(&policy.Query{Pinned: policy.Some(own)})
		if due != expected || !isDue {
			t.Errorf("%v is due for a query of %v: %v", due, own, isDue)
		}
	}
	expect(1_099, second, first) // its own is not due
	expect(1_100, first, first)
	expect(1_100, second, second)
	g.Handle(at(1_100), policy.Event{Kind: policy.EventAvailable, Replica: third}, nil)
	expect(1_100, third, first)
}

func TestAQueryThatWaitedForRoomMayBeATrial(t *testing.T) {
	g, replica := leaveOne(t, byErrors, false)
	g.latest, g.tickAt = at(1_000), at(60_000)
	query := policy.Query{Pinned: policy.Some(replica), HasRoom: true}
	decision := g.Choose(at(1_000), &query, fixed(0), nil)
	if pick := decision.Pick; pick.Ticket.Replica() != replica || pick.Reason != policy.ReasonTrial {
		t.Errorf("no trial: %+v", pick)
	}
}

func TestAQueryWhoseReplicaIsAvailableIsNoTrial(t *testing.T) {
	g, replica := leaveOne(t, byErrors, false)
	g.latest, g.tickAt = at(1_000), at(60_000)
	other := g.members.Members()[2]
	query := policy.Query{Pinned: policy.Some(other)}
	decision := g.Choose(at(1_000), &query, fixed(0), nil)
	if found := decision.Pick.Ticket.Replica(); found != other {
		t.Errorf("%v is sent to %v; %v is out", query.Pinned, found, replica)
	}
}

func TestAfterAPassedTrialTheNextNeedsNoToken(t *testing.T) {
	g, _, ticket := tryOne(t, bySlowness)
	g.HandleDone(at(1_010), ticket, policy.OutcomeSuccess)
	g.trials.saved = 0
	g.tickAt = 0
	g.tick(at(1_200))
	if !isDueAt(g, 1_200) {
		t.Errorf("none is due")
	}
	g.find(ticket.Replica()).course.passed = 0
	g.tick(at(1_300))
	if isDueAt(g, 1_300) || g.hasPassing {
		t.Errorf("one is due without a token")
	}
}

func TestOnlyTheFirstHeadCounts(t *testing.T) {
	g, _ := randomFleet(t, DefaultSettings(), 2)
	decision := g.Choose(at(10), &policy.Query{}, fixed(0), nil)
	ticket := decision.Pick.Ticket
	for range 3 {
		g.HandleHead(at(20), &ticket, policy.OutcomeSuccess)
	}
	r := g.find(ticket.Replica())
	if r.tickEnded != 1 || r.tickAnswers != 1 {
		t.Errorf("%d heads are booked", r.tickEnded)
	}
	g.HandleDone(at(30), ticket, policy.OutcomeSuccess)
	if r.tickEnded != 1 || r.waiting != 0 || r.inFlight != 0 {
		t.Errorf("%d are booked, %d wait, %d are in flight", r.tickEnded, r.waiting, r.inFlight)
	}
}

func TestAQueryFromBeforeAReplicaRejoinedDoesNotCount(t *testing.T) {
	for _, hasHead := range []bool{false, true} {
		g, replicas := randomFleet(t, DefaultSettings(), 2)
		pinned := policy.Query{Pinned: policy.Some(replicas[1])}
		decision := g.Choose(at(10), &pinned, fixed(0), nil)
		g.Handle(at(20), policy.Event{Kind: policy.EventRemoved, Replica: replicas[1]}, nil)
		g.Handle(at(20), policy.Event{Kind: policy.EventAdded, Replica: replicas[1]}, nil)
		if hasHead {
			g.HandleHead(at(30), &decision.Pick.Ticket, policy.OutcomeFailed)
		} else {
			g.HandleDone(at(30), decision.Pick.Ticket, policy.OutcomeFailed)
		}
		if r := g.find(replicas[1]); r.tickEnded != 0 || r.failuresInARow != 0 {
			t.Errorf("head %v: %d are booked", hasHead, r.tickEnded)
		}
	}
}
