package policy

// vacant is no replica: its slot is beyond [MaxReplicas].
const vacant = ^ReplicaID(0)

// ReplicaMap is a table keyed by replica. Slots are dense, so it is a plain slice: constant time at
// any fleet size, and an order that depends only on the history of calls. The zero value is empty.
type ReplicaMap[T any] struct {
	slots []mapSlot[T]
}

type mapSlot[T any] struct {
	// owner is the replica whose value it is, or vacant.
	owner ReplicaID
	value T
}

// Reserve makes space for a value of the replica, so that setting it later does not allocate. It
// does nothing for a replica whose index is not below [MaxReplicas].
func (m *ReplicaMap[T]) Reserve(replica ReplicaID) {
	if replica.Index() >= MaxReplicas {
		return
	}
	for len(m.slots) <= replica.Index() {
		m.slots = append(m.slots, mapSlot[T]{owner: vacant})
	}
}

// Set sets the value of the replica. It replaces the value that the replica, or an earlier owner of
// its slot, had. A replica whose index is not below [MaxReplicas] is ignored.
func (m *ReplicaMap[T]) Set(replica ReplicaID, value T) {
	m.Reserve(replica)
	if replica.Index() < len(m.slots) {
		m.slots[replica.Index()] = mapSlot[T]{owner: replica, value: value}
	}
}

// Remove removes the value of the replica. It returns the value, and false if there was none.
func (m *ReplicaMap[T]) Remove(replica ReplicaID) (T, bool) {
	var none T
	found := m.Find(replica)
	if found == nil {
		return none, false
	}
	value := *found
	m.slots[replica.Index()] = mapSlot[T]{owner: vacant}
	return value, true
}

// Find returns a pointer to the value of the replica, or nil if there is none. The pointer is valid
// until the next call of Set, Reserve or Remove.
func (m *ReplicaMap[T]) Find(replica ReplicaID) *T {
	if index := replica.Index(); index < len(m.slots) && m.slots[index].owner == replica {
		return &m.slots[index].value
	}
	return nil
}

// ReplicaSet is a set of replicas with constant-time insertion, removal and sampling. The zero
// value is empty.
type ReplicaSet struct {
	// members are in order of insertion, until a removal moves the last one into the gap.
	members   []ReplicaID
	positions ReplicaMap[uint32]
}

// Members returns the members: in order of insertion, until a removal moves the last one into the
// gap. The caller does not change them, and does not keep them across changes of the set.
func (s *ReplicaSet) Members() []ReplicaID { return s.members }

// Len returns the number of members.
func (s *ReplicaSet) Len() int { return len(s.members) }

// Contains reports whether the replica is a member.
func (s *ReplicaSet) Contains(replica ReplicaID) bool { return s.positions.Find(replica) != nil }

// Insert adds a replica. It returns true if the replica was not a member before. A replica whose
// index is not below [MaxReplicas] is not added.
func (s *ReplicaSet) Insert(replica ReplicaID) bool {
	if s.Contains(replica) || replica.Index() >= MaxReplicas {
		return false
	}
	s.positions.Set(replica, uint32(len(s.members)))
	s.members = append(s.members, replica)
	return true
}

// Remove removes a replica. It returns true if the replica was a member.
func (s *ReplicaSet) Remove(replica ReplicaID) bool {
	position, found := s.positions.Remove(replica)
	if !found {
		return false
	}
	last := len(s.members) - 1
	moved := s.members[last]
	s.members[position] = moved
	s.members = s.members[:last]
	if int(position) < last {
		s.positions.Set(moved, position)
	}
	return true
}
