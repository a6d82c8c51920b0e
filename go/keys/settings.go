package keys

import (
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Settings say how queries with a key find their replica. Start from [DefaultSettings]: the zero
// value is not valid.
type Settings struct {
	// BalanceFactor bounds the load of a key's replica: it gets no more of its queries while the
	// next one would take more than this many times the mean over the others, by load and mean
	// latency. 1 to 1,000, default 2. 1 is even and moves keys often. 0: without a bound.
	BalanceFactor policy.Millionths
	// Set is the number of replicas of a key, the home among them: 1 to 16, default 4.
	Set uint8
	// Partitions is the number of partitions of the keys: 0 to 16,384, default 0. 0: each key by
	// itself, without replication.
	Partitions uint16
	// ReplicateMax is the most homes of a partition: 1 to 16, default 1, which is no replication.
	// Above 1 only with partitions.
	ReplicateMax uint8
	// ReplicateAbove is the part of their fair share of the load above which a partition's homes
	// become more: above 0 to 1, default 0.5.
	ReplicateAbove policy.Millionths
	// ReplicateTime is how long that must last: above 0 to 1 hour, default 10 s.
	ReplicateTime time.Duration
	// HintHomes is the number of homes that prequal_sync probes for each query: 0 to 8, default 2.
	// 0: only random replicas.
	HintHomes uint8
}

const (
	factorMax     = 1_000 * policy.One
	partitionsMax = 16_384
)

// DefaultSettings returns the default settings.
func DefaultSettings() Settings {
	return Settings{
		BalanceFactor:  2 * policy.One,
		Set:            4,
		ReplicateMax:   1,
		ReplicateAbove: policy.One / 2,
		ReplicateTime:  10 * time.Second,
		HintHomes:      2,
	}
}

// Validate returns a [*policy.SettingError] for the first setting that is out of its range, or nil.
func (s *Settings) Validate() error {
	const most = policy.AmongMax
	for _, check := range []struct {
		valid           bool
		field, expected string
	}{
		{
			s.BalanceFactor == 0 || s.BalanceFactor >= policy.One && s.BalanceFactor <= factorMax,
			"key.balance_factor", "0 or from 1 to 1,000",
		},
		{s.Set >= 1 && s.Set <= most, "key.set", "from 1 to 16"},
		{s.Partitions <= partitionsMax, "key.partitions", "from 0 to 16,384"},
		{s.ReplicateMax >= 1 && s.ReplicateMax <= most, "key.replicate_max", "from 1 to 16"},
		{s.ReplicateMax == 1 || s.Partitions > 0, "key.replicate_max", "1 without partitions"},
		{
			s.ReplicateAbove > 0 && s.ReplicateAbove <= policy.One,
			"key.replicate_above", "above 0 and at most 1",
		},
		{
			s.ReplicateTime > 0 && s.ReplicateTime <= time.Hour,
			"key.replicate_time", "above 0 and at most 1 hour",
		},
		{s.HintHomes <= policy.MaxRoundProbes, "key.hint_homes", "from 0 to 8"},
	} {
		if !check.valid {
			return &policy.SettingError{Field: check.field, Expected: check.expected}
		}
	}
	return nil
}
