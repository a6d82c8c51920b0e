package keys_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

func TestSettingsOutOfRangeAreNamed(t *testing.T) {
	for _, of := range []struct {
		field string
		set   func(*keys.Settings)
	}{
		{"key.balance_factor", func(s *keys.Settings) { s.BalanceFactor = policy.One - 1 }},
		{"key.balance_factor", func(s *keys.Settings) { s.BalanceFactor = 1_000*policy.One + 1 }},
		{"key.set", func(s *keys.Settings) { s.Set = 0 }},
		{"key.set", func(s *keys.Settings) { s.Set = 17 }},
		{"key.partitions", func(s *keys.Settings) { s.Partitions = 16_385 }},
		{"key.replicate_max", func(s *keys.Settings) { s.ReplicateMax = 0 }},
		{"key.replicate_max", func(s *keys.Settings) { s.ReplicateMax = 2 }},
		{"key.replicate_max", func(s *keys.Settings) { s.Partitions, s.ReplicateMax = 1, 17 }},
		{"key.replicate_above", func(s *keys.Settings) { s.ReplicateAbove = 0 }},
		{"key.replicate_above", func(s *keys.Settings) { s.ReplicateAbove = policy.One + 1 }},
		{"key.replicate_time", func(s *keys.Settings) { s.ReplicateTime = 0 }},
		{"key.replicate_time", func(s *keys.Settings) { s.ReplicateTime = time.Hour + 1 }},
		{"key.hint_homes", func(s *keys.Settings) { s.HintHomes = 9 }},
	} {
		settings := keys.DefaultSettings()
		of.set(&settings)
		inner, err := policy.New("random", policy.DefaultSettings())
		if err != nil {
			t.Fatal(err)
		}
		_, err = keys.Wrap(inner, settings)
		var setting *policy.SettingError
		if !errors.As(err, &setting) || setting.Field != of.field {
			t.Errorf("%s: %v", of.field, err)
		}
	}
	widest := keys.Settings{
		Set: 16, Partitions: 16_384, ReplicateMax: 16, ReplicateAbove: policy.One,
		ReplicateTime: time.Hour, HintHomes: 8,
	}
	if err := widest.Validate(); err != nil {
		t.Error(err)
	}
}

// guarded returns a policy with health and keys around it, and its replicas.
func guarded(t testing.TB, name string, settings keys.Settings, replicas int) (policy.Policy, []policy.ReplicaID) {
	t.Helper()
	p, err := policy.New(name, policy.DefaultSettings())
	if err == nil {
		p, err = health.Guard(p, health.StandardSettings())
	}
	if err == nil {
		p, err = keys.Wrap(p, settings)
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids policy.ReplicaIDs
	all := make([]policy.ReplicaID, replicas)
	for i := range all {
		all[i], _ = ids.Allocate()
		p.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: all[i]}, nil)
	}
	return p, all
}

func TestChoiceForAKeyDoesNotAllocate(t *testing.T) {
	for _, name := range policy.Names() {
		if policy.HasRounds(name) {
			continue // a round is allocated
		}
		for _, partitions := range []uint16{0, 64} {
			settings := keys.DefaultSettings()
			settings.Partitions, settings.ReplicateMax = partitions, uint8(1+min(partitions, 7))
			p, replicas := guarded(t, name, settings, 100)
			draw, hasher, number := policy.NewSplitMix64(1), keys.NewHasher(), uint64(0)
			explanation, key := policy.NewExplanation(), []byte("user 0")
			var query policy.Query
			allocated := testing.AllocsPerRun(500, func() {
				number++
				now := policy.Instant(number * uint64(time.Millisecond))
				key[5] = byte('0' + number%10)
				query = policy.Query{Key: policy.Some(hasher.Hash(key)), Avoid: replicas[:2]}
				decision := p.Choose(now, &query, draw, explanation)
				p.Handle(now, policy.Event{
					Kind: policy.EventSiblingQueries, Replica: replicas[number%100], Count: 1,
				}, nil)
				p.HandleDone(now, decision.Pick.Ticket, policy.OutcomeSuccess)
			})
			if allocated != 0 {
				t.Errorf("%s with %d partitions: %v allocations", name, partitions, allocated)
			}
		}
	}
}

func TestReplicaThatLeavesMovesOnlyItsKeys(t *testing.T) {
	settings := keys.DefaultSettings()
	settings.BalanceFactor = 0
	p, replicas := guarded(t, "random", settings, 20)
	homes := func() map[uint64]policy.ReplicaID {
		found := map[uint64]policy.ReplicaID{}
		for number := range uint64(500) {
			query := policy.Query{Key: policy.Some(keys.NewHasher().Hash([]byte{byte(number), byte(number >> 8)}))}
			decision := p.Choose(0, &query, policy.NewSplitMix64(number), nil)
			if decision.Pick.Reason != policy.ReasonKeyHome {
				t.Fatalf("%v is not at home", decision.Pick.Reason)
			}
			found[number] = decision.Pick.Ticket.Replica()
			p.HandleDone(0, decision.Pick.Ticket, policy.OutcomeSuccess)
		}
		return found
	}
	before := homes()
	left := replicas[7]
	p.Handle(0, policy.Event{Kind: policy.EventRemoved, Replica: left}, nil)
	moved := 0
	for number, home := range homes() {
		if home != before[number] {
			moved++
			if before[number] != left {
				t.Errorf("key %d moved from %v to %v", number, before[number], home)
			}
		}
	}
	if moved == 0 || moved > 60 {
		t.Errorf("%d of 500 keys moved", moved)
	}
}

func TestQueriesWithoutAKeyAreChosenAsWithoutKeys(t *testing.T) {
	settings := keys.DefaultSettings()
	keyed, _ := guarded(t, policy.Default, settings, 9)
	bare, err := policy.New(policy.Default, policy.DefaultSettings())
	if err == nil {
		bare, err = health.Guard(bare, health.StandardSettings())
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids policy.ReplicaIDs
	for range 9 {
		replica, _ := ids.Allocate()
		bare.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
	}
	one, other := policy.NewSplitMix64(3), policy.NewSplitMix64(3)
	for number := range 300 {
		now := policy.Instant(number * int(time.Millisecond))
		first := keyed.Choose(now, &policy.Query{}, one, nil)
		second := bare.Choose(now, &policy.Query{}, other, nil)
		if first.Pick.Ticket.Replica() != second.Pick.Ticket.Replica() || first.Pick.Reason != second.Pick.Reason {
			t.Fatalf("query %d: %v and %v", number, first.Pick, second.Pick)
		}
	}
	if one.Draw() != other.Draw() {
		t.Error("the draws differ")
	}
}
