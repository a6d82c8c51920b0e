package health

import (
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

// offer tells the guard whether the caller offers a replica.
func offer(g *guarded, replica policy.ReplicaID, flag bool) {
	g.Handle(g.latest, policy.Event{Kind: policy.EventAvailable, Replica: replica, Flag: flag}, nil)
}

func expectAvailable(t *testing.T, g *guarded, replica policy.ReplicaID, want bool) {
	t.Helper()
	if g.Fleet().IsAvailable(replica) != want {
		t.Errorf("%v is available: %v", replica, !want)
	}
}

// drain tells the guard that a replica reports that it drains.
func drain(g *guarded, replica policy.ReplicaID) {
	event := policy.Event{
		Kind: policy.EventSiblingReport, Replica: replica, Load: &policy.LoadReport{Draining: true},
	}
	g.Handle(g.latest, event, fixed(0))
}

// probedFleet returns a fleet that listens to reports, with health around it.
func probedFleet(t *testing.T, replicas int) (*guarded, []policy.ReplicaID) {
	t.Helper()
	g, known := randomFleet(t, DefaultSettings(), replicas)
	inner, err := policy.New("prequal", policy.DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	g.policy = inner
	for _, replica := range known {
		inner.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
	}
	return g, known
}

func TestAReplicaThatIsOutStaysOutWhenTheCallerOffersIt(t *testing.T) {
	g, replica := leaveOne(t, byErrors, false)
	for _, c := range []struct {
		flag                bool
		offered, offeredOut int
	}{{false, 3, 0}, {false, 3, 0}, {true, 4, 1}, {true, 4, 1}} {
		offer(g, replica, c.flag)
		expectAvailable(t, g, replica, false)
		if g.offered != c.offered || g.offeredOut != c.offeredOut {
			t.Errorf("offered %v: %d offered, %d of those out", c.flag, g.offered, g.offeredOut)
		}
	}
}

func TestAReplicaThatComesBackIsAvailableOnlyIfTheCallerOffersIt(t *testing.T) {
	for _, isOffered := range []bool{false, true} {
		g, replica := leaveOne(t, byErrors, false)
		offer(g, replica, isOffered)
		g.comeBack(replica)
		expectAvailable(t, g, replica, isOffered)
	}
}

func TestAReplicaThatComesBackKeepsItsQueriesInFlight(t *testing.T) {
	g, replicas := randomFleet(t, DefaultSettings(), 2)
	pinned := policy.Query{Pinned: policy.Some(replicas[1])}
	g.Choose(at(0), &pinned, fixed(0), nil)
	g.leave(replicas[1], byErrors, false)
	g.comeBack(replicas[1])
	if inFlight := g.Fleet().InFlight(replicas[1]); inFlight != 1 {
		t.Errorf("%d in flight", inFlight)
	}
}

func TestOfEqualReplicasTheLastOneToLeaveComesBack(t *testing.T) {
	g, replicas := randomFleet(t, DefaultSettings(), 4)
	g.leave(replicas[0], byErrors, false)
	g.leave(replicas[1], byErrors, false)
	offer(g, replicas[2], false)
	offer(g, replicas[3], false)
	expectAvailable(t, g, replicas[0], false)
	expectAvailable(t, g, replicas[1], true)
}

func TestAReplicaComesBackWhenAllOthersDrain(t *testing.T) {
	for _, drainsFirst := range []bool{false, true} {
		g, replicas := probedFleet(t, 4)
		leave := func() {
			g.leave(replicas[0], bySlowness, false)
			g.leave(replicas[1], bySlowness, false)
		}
		if !drainsFirst {
			leave()
		}
		drain(g, replicas[2])
		drain(g, replicas[3])
		if drainsFirst {
			leave()
			g.tick(at(200))
		}
		expectAvailable(t, g, replicas[0], false)
		expectAvailable(t, g, replicas[1], true)
	}
}

func TestATrialOfAReplicaThatDrainsIsPutOff(t *testing.T) {
	g, replicas := probedFleet(t, 4)
	drain(g, replicas[1])
	g.leave(replicas[1], byErrors, false)
	g.tickAt = at(60_000) // it is not judged before
	for range 1_000 {
		g.trials.earn()
	}
	decision := g.Choose(at(1_500), &policy.Query{}, policy.NewSplitMix64(1), nil)
	if decision.Pick.Ticket.Replica() == replicas[1] {
		t.Errorf("it gets a query")
	}
	if next := g.find(replicas[1]).course.nextTrialAt; next != at(2_500) {
		t.Errorf("the next trial is at %d", next)
	}
}
