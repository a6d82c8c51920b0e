package policy

import (
	"slices"
	"testing"
)

func allocate(t *testing.T, ids *ReplicaIDs, count int) []ReplicaID {
	t.Helper()
	var replicas []ReplicaID
	for range count {
		replica, ok := ids.Allocate()
		if !ok {
			t.Fatal("no name is left")
		}
		replicas = append(replicas, replica)
	}
	return replicas
}

func TestNamesAreNeverUsedAgain(t *testing.T) {
	var ids ReplicaIDs
	first := allocate(t, &ids, 2)[1]
	if !ids.Release(first) || ids.Release(first) {
		t.Error("a name is released once")
	}
	second := allocate(t, &ids, 1)[0]
	if second == first || second.Index() != first.Index() {
		t.Errorf("%v follows %v in its slot", second, first)
	}
	if ids.Release(first) || ids.Release(vacant) {
		t.Error("a name that is not in use is released")
	}
	if first.String() != "r1" || second.String() != "r1.1" {
		t.Errorf("they are written as %v and %v", first, second)
	}
	var table ReplicaMap[string]
	table.Set(first, "first")
	if table.Find(second) != nil {
		t.Error("the successor has the value of the one before")
	}
	table.Set(second, "second")
	if _, found := table.Remove(first); found || *table.Find(second) != "second" {
		t.Error("the successor's value is taken for that of the one before")
	}
}

func TestNamesAreInTheOrderOfTheirSlots(t *testing.T) {
	inOrder := []ReplicaID{
		newReplicaID(0, 0), newReplicaID(0, 7), newReplicaID(1, 0), newReplicaID(1, 1), newReplicaID(2, 0),
	}
	sorted := slices.Clone(inOrder)
	slices.Sort(sorted)
	slices.SortFunc(sorted, compareReplicas)
	if !slices.Equal(sorted, inOrder) {
		t.Errorf("sorted: %v", sorted)
	}
}

func TestNamesAreLimited(t *testing.T) {
	var ids ReplicaIDs
	replicas := allocate(t, &ids, MaxReplicas)
	if _, ok := ids.Allocate(); ok {
		t.Error("too many names")
	}
	if !ids.Release(replicas[5]) {
		t.Error("it was in use")
	}
	if _, ok := ids.Allocate(); !ok {
		t.Error("one is free again")
	}
	// A name that no allocator gives away must not make tables of its size.
	var set ReplicaSet
	if set.Insert(newReplicaID(MaxReplicas, 0)) || set.Len() != 0 {
		t.Error("a name out of range is a member")
	}
}

func TestSetStaysConsistentAfterRemovalInTheMiddle(t *testing.T) {
	var ids ReplicaIDs
	var set ReplicaSet
	replicas := allocate(t, &ids, 5)
	for _, replica := range replicas {
		if !set.Insert(replica) || set.Insert(replica) {
			t.Errorf("%v is inserted once", replica)
		}
	}
	if !set.Remove(replicas[1]) || set.Remove(replicas[1]) {
		t.Error("a replica is removed once")
	}
	expected := []ReplicaID{replicas[0], replicas[4], replicas[2], replicas[3]}
	if !slices.Equal(set.Members(), expected) {
		t.Errorf("the last one moves into the gap: %v", set.Members())
	}
	for _, replica := range expected {
		if !set.Contains(replica) || !set.Remove(replica) {
			t.Errorf("%v is a member", replica)
		}
	}
}
