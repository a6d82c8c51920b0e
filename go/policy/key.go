package policy

import (
	"cmp"
	"fmt"
)

// KeyHash is the hash of what a query is about: a user, a session, a path, a prompt. It must be
// uniform over all values: package keys has a hasher.
type KeyHash uint64

// String returns the hash as 16 hexadecimal digits.
func (h KeyHash) String() string { return fmt.Sprintf("%016x", uint64(h)) }

// Identity is the stable name of a replica: the same for all clients, whatever order replicas join
// in. Package keys makes one of an address.
type Identity struct {
	// Name is the name of the server as a number: a hash of its address, or of a configured name.
	// Any value.
	Name uint64
	// Part is which part of the server this is, from 0: a server of weight w is w replicas with the
	// same name. A part that is known already is harmless: the two share one place.
	Part uint32
}

// Compare orders identities by name, and those of one name by part. It returns −1, 0 or 1.
func (i Identity) Compare(other Identity) int {
	return cmp.Or(cmp.Compare(i.Name, other.Name), cmp.Compare(i.Part, other.Part))
}

// KeyChoice is what the choice for a query with a key was made from.
type KeyChoice struct {
	// Partition is the key's partition; absent without partitions.
	Partition Optional[uint16]
	// Homes is how many of the first servers of Set are homes.
	Homes int
	// Set has the key's servers in their order, homes first.
	Set []KeyServer
}

// KeyServer is a server of a key's set, at a choice.
type KeyServer struct {
	// Replica is the server; if it has several parts, the one that would have got the query. If the
	// query avoided all parts, it is one of them.
	Replica ReplicaID
	// Load is its load before the query, in requests in flight: reported, plus what this client has
	// sent since.
	Load uint64
	// Cap is the load from which it gets no more of its keys' queries. It is absent without a bound.
	Cap Optional[uint64]
	// Avoided says that the query avoided it.
	Avoided bool
}

// BelowCap reports whether the server gets queries of its keys.
func (s *KeyServer) BelowCap() bool { return !s.Cap.Known || s.Load < s.Cap.Value }

// KeyView is keys in the state of a policy.
type KeyView struct {
	// Cap is the load from which a server of one part gets no more of its keys' queries. It is
	// absent without a bound.
	Cap Optional[uint64]
	// Replicated is how many partitions have more than one home.
	Replicated int
	// Partitions are those with the most queries in flight, at most [MaxPartitionViews], the busiest
	// first. Those that had no query are left out.
	Partitions []PartitionView
}

// MaxPartitionViews is the most partitions of a [KeyView].
const MaxPartitionViews = 16

// PartitionView is a partition of the keys.
type PartitionView struct {
	// Partition is its number, from 0.
	Partition uint16
	// Homes is how many homes it has.
	Homes int
	// InFlight is the number of this client's queries in flight.
	InFlight uint32
	// InFlightMillis is their mean over about a second, in thousandths.
	InFlightMillis uint64
	// QueryRateMillis is its queries per second, in thousandths, over about a second.
	QueryRateMillis uint64
	// Servers are its servers in their order, one replica of each. It is empty if the partition has
	// had no query since the fleet changed.
	Servers []ReplicaID
}
