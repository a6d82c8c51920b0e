package keys_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slackwater/slackwater/go/internal/vectors"
	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

// TestTable compares hashes, names and orders of servers with those of the Rust core.
func TestTable(t *testing.T) {
	lines, err := vectors.KeyLines()
	if err != nil {
		t.Fatal(err)
	}
	var fleet *fleet
	counts := map[string]int{}
	for number := range lines {
		line := &lines[number]
		counts[line.Op]++
		switch line.Op {
		case "hash":
			hasher := keys.NewHasher()
			switch {
			case line.Secret != nil:
				hasher = keys.NewSecretHasher(*line.Secret)
			case line.Seed != nil:
				hasher = keys.NewSeededHasher(line.Seed[0], line.Seed[1])
			}
			if hash := hasher.Hash(line.Bytes); uint64(hash) != line.Hash {
				t.Errorf("line %d: found %d", number+1, uint64(hash))
			}
			if hash := hasher.HashString(string(line.Bytes)); uint64(hash) != line.Hash {
				t.Errorf("line %d: found %d as a string", number+1, uint64(hash))
			}
		case "name":
			if identity := keys.IdentityOf(line.Address, 3); identity != (policy.Identity{Name: line.Name, Part: 3}) {
				t.Errorf("line %d: found %v", number+1, identity)
			}
		case "fleet":
			fleet = newFleet(t, line)
		case "order":
			if line.Value != "" {
				if hash := keys.NewHasher().Of(line.Value); hash != policy.Some(policy.KeyHash(line.Key)) {
					t.Errorf("line %d: found the key %v", number+1, hash)
				}
			}
			partition, order := fleet.order(policy.KeyHash(line.Key))
			if !slices.Equal(order, line.Order) {
				t.Errorf("line %d: found %v", number+1, order)
			}
			if expected := line.Partition; partition.Known != (expected != nil) || expected != nil && *expected != partition.Value {
				t.Errorf("line %d: found the partition %v", number+1, partition)
			}
		default:
			t.Errorf("line %d: unknown op %q", number+1, line.Op)
		}
	}
	for _, op := range []string{"hash", "name", "fleet", "order"} {
		if counts[op] == 0 {
			t.Errorf("there is no line with %s", op)
		}
	}
}

// fleet is a policy over some servers, without a bound and with the largest set.
type fleet struct {
	policy   policy.Policy
	places   map[policy.ReplicaID]int
	explains *policy.Explanation
}

func newFleet(t *testing.T, line *vectors.KeyLine) *fleet {
	t.Helper()
	settings := keys.DefaultSettings()
	settings.BalanceFactor, settings.Set, settings.Partitions = 0, policy.AmongMax, line.Partitions
	inner, err := policy.New("random", policy.DefaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{places: map[policy.ReplicaID]int{}, explains: policy.NewExplanation()}
	if f.policy, err = keys.Wrap(inner, settings); err != nil {
		t.Fatal(err)
	}
	var ids policy.ReplicaIDs
	for place, server := range line.Servers {
		for part := range server.Weight {
			replica, _ := ids.Allocate()
			f.policy.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
			f.policy.Handle(0, policy.Event{
				Kind: policy.EventIdentified, Replica: replica,
				Identity: keys.IdentityOf(server.Address, part),
			}, nil)
			f.places[replica] = place
		}
	}
	return f
}

func (f *fleet) order(key policy.KeyHash) (policy.Optional[uint16], []int) {
	query := policy.Query{Key: policy.Some(key)}
	f.policy.Choose(0, &query, policy.NewSplitMix64(1), f.explains)
	choice, _ := f.explains.Key()
	var order []int
	for _, server := range choice.Set {
		order = append(order, f.places[server.Replica])
	}
	return choice.Partition, order
}

func TestIdentityOfAnAddressDoesNotDependOnHowItIsWritten(t *testing.T) {
	for _, same := range [][]string{
		{"[2001:db8::1]:80", "[2001:0DB8:0:0:0:0:0:1]:80"},
		{"[::ffff:10.0.0.1]:80", "[::FFFF:a00:1]:80"},
	} {
		first := keys.IdentityOf(same[0], 0)
		if first != keys.NewIdentity(same[0], 0) || first != keys.IdentityOf(same[1], 0) {
			t.Errorf("%v: %v", same, first)
		}
	}
	if keys.IdentityOf("10.0.0.1:80", 0) == keys.IdentityOf("10.0.0.1:81", 0) {
		t.Error("the port does not count")
	}
}

func TestKeyOfAValue(t *testing.T) {
	hasher := keys.NewHasher()
	if hasher.Of("").Known {
		t.Error("an empty value is a key")
	}
	long := fmt.Sprintf("%5000d", 1)
	if hasher.Of(long) != hasher.Of(long[:4096]) || hasher.Of(long) == hasher.Of(long[:4095]) {
		t.Error("not the first 4 KiB count")
	}
}
