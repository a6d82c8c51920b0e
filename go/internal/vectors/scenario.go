package vectors

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Scenario is the first line of a scenario: what is played.
type Scenario struct {
	// Name is the scenario's name.
	Name string `json:"scenario"`
	// Policy is the name of the policy.
	Policy string `json:"policy"`
	// Seed is the seed of all draws of the policy.
	Seed uint64 `json:"seed"`
	// Health are the settings of health around the policy; nil if there is none.
	Health json.RawMessage `json:"health"`
	// Key are the settings of keys around all of that; nil if there are none.
	Key json.RawMessage `json:"key"`
	// RawSettings are the settings that the policy reads.
	RawSettings json.RawMessage `json:"settings"`
}

// Settings returns the settings of the policy. Those that the scenario does not name have their
// defaults.
func (s *Scenario) Settings() (policy.Settings, error) {
	settings := policy.DefaultSettings()
	p, d := &settings.Prequal, &settings.ShortestExpectedDelay
	read := struct {
		Prequal               map[string]json.RawMessage `json:"prequal"`
		ShortestExpectedDelay map[string]json.RawMessage `json:"shortest_expected_delay"`
	}{}
	if err := json.Unmarshal(s.RawSettings, &read); err != nil {
		return settings, fmt.Errorf("settings of scenario %s: %w", s.Name, err)
	}
	err := readSection(read.Prequal, map[string]any{
		"probe_rate":             &p.ProbeRate,
		"probe_rate_min":         &p.ProbeRateMin,
		"remove_rate":            &p.RemoveRate,
		"pool_capacity":          &p.PoolCapacity,
		"report_age_max":         &p.ReportAgeMax,
		"rif_limit_quantile":     &p.RIFLimitQuantile,
		"pool_drift":             &p.PoolDrift,
		"reuse_max":              &p.ReuseMax,
		"probe_idle_max":         &p.ProbeIdleMax,
		"idle_probes":            &p.IdleProbes,
		"probe_interval_min":     &p.ProbeIntervalMin,
		"probe_deadline":         &p.ProbeDeadline,
		"probes_outstanding_max": &p.ProbesOutstandingMax,
		"probes_per_second_max":  &p.ProbesPerSecondMax,
		"sync_probes":            &p.SyncProbes,
		"sync_deadline":          &p.SyncDeadline,
		"local_only":             &p.LocalOnly,
	})
	if err == nil {
		err = readSection(read.ShortestExpectedDelay, map[string]any{
			"probe_rate":   &d.ProbeRate,
			"latency_band": &d.LatencyBand,
			"cost_band":    &d.CostBand,
		})
	}
	if err != nil {
		return settings, fmt.Errorf("settings of scenario %s: %w", s.Name, err)
	}
	return settings, nil
}

// readSection reads values into the fields with the same keys. An unknown key is an error: the
// vectors would mean more than this implementation plays.
func readSection(section map[string]json.RawMessage, fields map[string]any) error {
	for key, value := range section {
		field, known := fields[key]
		if !known {
			return fmt.Errorf("unknown key %s", key)
		}
		if err := json.Unmarshal(value, field); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// report is a report as it is written.
type report struct {
	RIF         uint32  `json:"rif"`
	Latency     int64   `json:"latency"`
	LoadScale   uint16  `json:"load_scale"`
	Draining    bool    `json:"draining"`
	Incarnation *uint64 `json:"incarnation"`
	Errors      *uint32 `json:"errors"`
	CPU         *uint32 `json:"cpu"`
	QueryRate   *uint32 `json:"query_rate"`
	Capacity    *uint32 `json:"capacity"`
	Cost        *int64  `json:"cost"`
}

func (r *report) load() policy.LoadReport {
	load := policy.LoadReport{
		RIF:              r.RIF,
		Latency:          time.Duration(r.Latency),
		LoadScale:        r.LoadScale,
		Draining:         r.Draining,
		Incarnation:      optional(r.Incarnation),
		ErrorMillionths:  optional(r.Errors),
		CPUMillionths:    optional(r.CPU),
		QueryRateMillis:  optional(r.QueryRate),
		CapacityMilliRIF: optional(r.Capacity),
	}
	if r.Cost != nil {
		load.Cost = policy.Some(time.Duration(*r.Cost))
	}
	return load
}

func optional[T any](value *T) policy.Optional[T] {
	if value == nil {
		return policy.Optional[T]{}
	}
	return policy.Some(*value)
}
