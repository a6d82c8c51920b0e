package policy

import (
	"cmp"
	"fmt"
)

// ReplicaID names a replica for as long as it is known: the slot in the lower half, the generation
// in the upper half. A name is never used again, so a late event about a replica that has left
// cannot be mistaken for one about its successor. [ReplicaIDs] allocates names.
type ReplicaID uint64

func newReplicaID(slot, generation uint32) ReplicaID {
	return ReplicaID(uint64(generation)<<32 | uint64(slot))
}

// Index returns a small number that no other replica of the fleet has at the same time, to index
// tables with. After the replica has left, its successor may have it.
func (r ReplicaID) Index() int { return int(uint32(r)) }

func (r ReplicaID) generation() uint32 { return uint32(r >> 32) }

// String returns the name for people, such as r3, or r3.1 for the second replica in the slot.
func (r ReplicaID) String() string {
	if r.generation() == 0 {
		return fmt.Sprintf("r%d", r.Index())
	}
	return fmt.Sprintf("r%d.%d", r.Index(), r.generation())
}

// compareReplicas orders names by their slots, and names of one slot by their generations.
func compareReplicas(a, b ReplicaID) int {
	return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(a, b))
}

// MaxReplicas is the most replicas that a fleet can have at once.
const MaxReplicas = 1 << 20

// ReplicaIDs allocates replica names, one allocator for each fleet. Policies that serve the same
// fleet share its names. The zero value is ready to use.
type ReplicaIDs struct {
	slots []idSlot
	free  []uint32
}

type idSlot struct {
	generation uint32
	taken      bool
}

// Allocate returns a name for a replica that joins, or false when [MaxReplicas] are in use.
func (ids *ReplicaIDs) Allocate() (ReplicaID, bool) {
	if last := len(ids.free) - 1; last >= 0 {
		slot := ids.free[last]
		ids.free = ids.free[:last]
		ids.slots[slot].taken = true
		return newReplicaID(slot, ids.slots[slot].generation), true
	}
	if len(ids.slots) >= MaxReplicas {
		return 0, false
	}
	ids.slots = append(ids.slots, idSlot{taken: true})
	return newReplicaID(uint32(len(ids.slots)-1), 0), true
}

// Release releases the name of a replica that left. It returns false if the name was not in use.
// Every policy with this replica must remove it first, since its successor takes its slot.
func (ids *ReplicaIDs) Release(replica ReplicaID) bool {
	if replica.Index() >= len(ids.slots) {
		return false
	}
	slot := &ids.slots[replica.Index()]
	if !slot.taken || slot.generation != replica.generation() {
		return false
	}
	slot.taken = false
	slot.generation++
	ids.free = append(ids.free, uint32(replica.Index()))
	return true
}
