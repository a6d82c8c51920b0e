package policy

import (
	"slices"
	"testing"
	"time"
)

// policyOver returns a policy with this many replicas.
func policyOver(t *testing.T, name string, replicas int) (Policy, []ReplicaID) {
	t.Helper()
	p, err := New(name, DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	var ids ReplicaIDs
	all := make([]ReplicaID, replicas)
	for i := range all {
		all[i], _ = ids.Allocate()
		p.Handle(0, Event{Kind: EventAdded, Replica: all[i]}, nil)
	}
	return p, all
}

func TestNarrowedQueryStaysAmongItsReplicas(t *testing.T) {
	for _, name := range Names() {
		p, all := policyOver(t, name, 8)
		draw := NewSplitMix64(1)
		for _, of := range []struct {
			query    Query
			expected []ReplicaID
		}{
			{Query{Among: all[2:4]}, all[2:4]},
			{Query{Among: all[2:4], Homes: all[6:7]}, all[6:7]},
			{Query{Among: all[2:4], Homes: all[6:7], Avoid: all[6:7]}, all[2:4]},
			{Query{Among: all[2:4], Avoid: all[2:4]}, slices.Concat(all[:2], all[4:])},
		} {
			found := map[ReplicaID]bool{}
			for range 100 {
				query := of.query
				decision := p.Choose(0, &query, draw, nil)
				if decision.Kind == ProbeFirst {
					query.Round = decision.Round
					decision = p.Choose(0, &query, draw, nil)
				}
				found[decision.Pick.Ticket.Replica()] = true
				p.HandleDone(0, decision.Pick.Ticket, OutcomeSuccess)
			}
			for replica := range found {
				if !slices.Contains(of.expected, replica) {
					t.Errorf("%s: %v is not one of %v", name, replica, of.expected)
				}
			}
			if len(found) < min(len(of.expected), 3) {
				t.Errorf("%s: only %v of %v", name, found, of.expected)
			}
		}
	}
}

// Reports beyond the newest are not searched for old ones, so their age is checked at a choice.
func TestNarrowedQueryUsesNoOldReport(t *testing.T) {
	p, all := policyOver(t, Default, 20)
	draw := NewSplitMix64(1)
	report := LoadReport{RIF: 1, Latency: time.Millisecond}
	for i, replica := range slices.Concat(all, all[4:]) {
		now := Instant(0)
		if i >= len(all) {
			now = Instant(900 * time.Millisecond)
		}
		p.Handle(now, Event{Kind: EventSiblingReport, Replica: replica, Load: &report}, draw)
	}
	for _, of := range []struct {
		at       time.Duration
		replica  ReplicaID
		expected PickReason
	}{
		{999 * time.Millisecond, all[0], ReasonLowestScore},
		{1500 * time.Millisecond, all[5], ReasonLowestScore},
		{1500 * time.Millisecond, all[0], ReasonLeastLoaded},
	} {
		query := Query{Among: []ReplicaID{of.replica}}
		pick := p.Choose(Instant(of.at), &query, draw, nil).Pick
		if pick.Ticket.Replica() != of.replica || pick.Reason != of.expected {
			t.Errorf("after %v: %v by %v", of.at, pick.Ticket.Replica(), pick.Reason)
		}
	}
}
