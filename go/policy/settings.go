package policy

import (
	"fmt"
	"time"
)

// Settings are the settings of all policies. Each policy reads its own. Start from
// [DefaultSettings]: the zero value is not valid.
type Settings struct {
	// Prequal is for prequal and prequal_sync. shortest_expected_delay uses its probe settings.
	Prequal PrequalSettings
	// ShortestExpectedDelay is for shortest_expected_delay.
	ShortestExpectedDelay ShortestExpectedDelaySettings
}

// PrequalSettings are the settings of Prequal, and of the probes of other policies.
type PrequalSettings struct {
	// ProbeRate is the number of probes per query (r_probe in the paper): 0 to 16, default 3,
	// fractions allowed. 0 leaves only idle probes.
	ProbeRate Millionths
	// ProbeRateMin is the smallest number of probes per query while probes show an overload, of the
	// replicas or of the client: 0 to 16, default 1. The rate falls towards it step by step, and
	// recovers when probes are answered in time again. At ProbeRate or more, the rate is never
	// lowered; at 0 only idle probes may be left. shortest_expected_delay also uses it while this
	// client sends most of the queries.
	ProbeRateMin Millionths
	// RemoveRate is the number of reports removed from the pool after each query (r_remove): 0 to
	// 16, default 1, fractions allowed. 0 removes none.
	RemoveRate Millionths
	// PoolCapacity is the most reports in the pool (m): 2 to 256, default 16.
	PoolCapacity uint16
	// ReportAgeMax is the age at which a report is removed: above 0 to 1 hour, default 1 s.
	ReportAgeMax time.Duration
	// RIFLimitQuantile is the quantile of the RIF distribution from which a report is hot (Q_RIF): 0
	// to 1, default 0.7; the paper's is 2^−0.25 ≈ 0.840896. At 0 everything is hot (RIF alone
	// decides), at 1 nothing is (latency alone decides).
	RIFLimitQuantile Millionths
	// PoolDrift is the net rate at which reports would accumulate in the pool (δ of equation 1):
	// above 0 to 16, default 1.
	PoolDrift Millionths
	// ReuseMax is the most queries that one report may decide by equation (1): 1 to 1,024, default
	// 1; the paper has no such limit. At any value, a report may decide as many as the pool needs to
	// not run dry.
	ReuseMax uint16
	// ProbeIdleMax is the time without a probe after which idle probes are sent: 1 ms to 1 hour,
	// default 100 ms.
	ProbeIdleMax time.Duration
	// IdleProbes is the number of idle probes: 0 to 16, default 2. 0 turns them off.
	IdleProbes uint16
	// ProbeIntervalMin is the shortest time between two probes of one replica: 0 to 1 hour, default
	// 1 ms. The paper has 0, which is no limit.
	ProbeIntervalMin time.Duration
	// ProbeDeadline is the deadline of an asynchronous probe, after which it is lost: above 0 to 1
	// minute, default 50 ms. No query waits for it.
	ProbeDeadline time.Duration
	// ProbesOutstandingMax is the most probes in flight: 1 to 4,096, default 64.
	ProbesOutstandingMax uint16
	// ProbesPerSecondMax is the most probes per second of this client, including idle ones and those
	// of unprobed replicas: 0 to 10,000,000, default 0, which is no limit. A burst may have a tenth
	// of that, or 16.
	ProbesPerSecondMax uint32
	// SyncProbes is the number of probes per query in synchronous mode (d): 2 to 8, default 3.
	SyncProbes uint8
	// SyncDeadline is the deadline of a synchronous choice, which then uses the answers it has:
	// above 0 to 1 minute, default 3 ms.
	SyncDeadline time.Duration
	// LocalOnly sends no probes: every replica is balanced by this client's own counts. Default
	// false.
	LocalOnly bool
}

// ShortestExpectedDelaySettings are the settings of shortest_expected_delay besides those of its
// probes.
type ShortestExpectedDelaySettings struct {
	// ProbeRate is the number of probes per query while at least five of six responses carry reports
	// with a capacity, and the mean capacity is at least one request: 0 to 16, default 0.5. 0
	// leaves idle probes and the reports of responses. Otherwise the rate of [PrequalSettings]
	// applies. While two thirds of the queries that replicas report are this client's, it sends
	// ProbeRateMin of them, and half a probe or more.
	ProbeRate Millionths
	// LatencyBand is how far a replica's mean latency may differ from the mean of all and still
	// count as that, relatively: 0 to 10, default 0.15. At 0 every difference counts, even chance.
	// At 10 none does, and requests in flight decide alone.
	LatencyBand Millionths
	// CostBand is how far a replica's cost may differ from the mean of all and still count as that,
	// relatively: 0 to 10, default 0.25. 0 and 10 as above.
	CostBand Millionths
}

// DefaultSettings returns the default settings.
func DefaultSettings() Settings {
	return Settings{
		Prequal: PrequalSettings{
			ProbeRate:            3 * One,
			ProbeRateMin:         One,
			RemoveRate:           One,
			PoolCapacity:         16,
			ReportAgeMax:         time.Second,
			RIFLimitQuantile:     700_000,
			PoolDrift:            One,
			ReuseMax:             1,
			ProbeIdleMax:         100 * time.Millisecond,
			IdleProbes:           2,
			ProbeIntervalMin:     time.Millisecond,
			ProbeDeadline:        50 * time.Millisecond,
			ProbesOutstandingMax: 64,
			SyncProbes:           3,
			SyncDeadline:         3 * time.Millisecond,
		},
		ShortestExpectedDelay: ShortestExpectedDelaySettings{
			ProbeRate:   One / 2,
			LatencyBand: 150_000,
			CostBand:    250_000,
		},
	}
}

// PaperSettings returns the paper's own settings of Prequal: reports are used as often as equation
// (1) allows, the RIF limit is the 2^−0.25 quantile, a replica may be probed again at once, and the
// probe rate is constant.
//
// Three rules have no setting, and differ from the paper here, too. Removal by rate leaves at least
// four reports. At most one probe of this client to a replica is in flight. A replica that stops
// answering probes while others go on is not picked.
func PaperSettings() Settings {
	settings := DefaultSettings()
	settings.Prequal.RIFLimitQuantile = 840_896
	settings.Prequal.ReuseMax = reuseMax
	settings.Prequal.ProbeIntervalMin = 0
	settings.Prequal.ProbeRateMin = rateMax
	return settings
}

// Refills reports whether probing refills the pool of prequal faster than removal by rate drains
// it, in a fleet of this many replicas: (1 − m/n) · r_probe > r_remove. If not, removal often finds
// too few reports, and an adapter should log a warning.
func (s *PrequalSettings) Refills(replicas int) bool {
	n, m := int64(replicas), int64(s.PoolCapacity)
	return max(n-m, 0)*int64(s.ProbeRate) > n*int64(s.RemoveRate)
}

// SettingError is a setting out of range.
type SettingError struct {
	// Field is the name of the setting with its section, such as prequal.pool_capacity.
	Field string
	// Expected names the allowed values, such as "from 2 to 256".
	Expected string
}

// Error returns a sentence such as "prequal.pool_capacity must be from 2 to 256".
func (e *SettingError) Error() string { return fmt.Sprintf("%s must be %s", e.Field, e.Expected) }

const (
	rateMax  = 16 * One
	bandMax  = 10 * One
	reuseMax = 1024
)

// Validate returns a [*SettingError] for the first setting that is out of its range, or nil.
func (s *Settings) Validate() error {
	p, d := &s.Prequal, &s.ShortestExpectedDelay
	const (
		rate   = "from 0 to 16 a query"
		hour   = "above 0 and at most 1 hour"
		minute = "above 0 and at most 1 minute"
		band   = "from 0 to 10,000,000"
	)
	for _, check := range []struct {
		valid           bool
		field, expected string
	}{
		{p.ProbeRate <= rateMax, "prequal.probe_rate", rate},
		{p.ProbeRateMin <= rateMax, "prequal.probe_rate_min", rate},
		{p.RemoveRate <= rateMax, "prequal.remove_rate", rate},
		{within(p.PoolCapacity, 2, 256), "prequal.pool_capacity", "from 2 to 256"},
		{within(p.ReportAgeMax, 1, time.Hour), "prequal.report_age_max", hour},
		{p.RIFLimitQuantile <= One, "prequal.rif_limit_quantile", "from 0 to 1"},
		{within(p.PoolDrift, 1, rateMax), "prequal.pool_drift", "above 0 and at most 16"},
		{within(p.ReuseMax, 1, reuseMax), "prequal.reuse_max", "from 1 to 1,024"},
		{within(p.ProbeIdleMax, time.Millisecond, time.Hour), "prequal.probe_idle_max", "from 1 ms to 1 hour"},
		{p.IdleProbes <= 16, "prequal.idle_probes", "from 0 to 16"},
		{within(p.ProbeIntervalMin, 0, time.Hour), "prequal.probe_interval_min", "at most 1 hour"},
		{within(p.ProbeDeadline, 1, time.Minute), "prequal.probe_deadline", minute},
		{within(p.ProbesOutstandingMax, 1, 4096), "prequal.probes_outstanding_max", "from 1 to 4,096"},
		{p.ProbesPerSecondMax <= 10_000_000, "prequal.probes_per_second_max", "from 0 to 10,000,000"},
		{within(p.SyncProbes, 2, MaxRoundProbes), "prequal.sync_probes", "from 2 to 8"},
		{within(p.SyncDeadline, 1, time.Minute), "prequal.sync_deadline", minute},
		{d.ProbeRate <= rateMax, "shortest_expected_delay.probe_rate", rate},
		{d.LatencyBand <= bandMax, "shortest_expected_delay.latency_band_millionths", band},
		{d.CostBand <= bandMax, "shortest_expected_delay.cost_band_millionths", band},
	} {
		if !check.valid {
			return &SettingError{Field: check.field, Expected: check.expected}
		}
	}
	return nil
}

func within[T ~uint8 | ~uint16 | ~uint32 | ~int64](value, low, high T) bool {
	return value >= low && value <= high
}
