package policy

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSettingsOutOfRangeAreRejectedByName(t *testing.T) {
	defaults := DefaultSettings()
	if err := defaults.Validate(); err != nil {
		t.Fatalf("the defaults are valid: %v", err)
	}
	for _, of := range []struct {
		field string
		spoil func(*Settings)
	}{
		{"prequal.probe_rate", func(s *Settings) { s.Prequal.ProbeRate = 16*One + 1 }},
		{"prequal.probe_rate_min", func(s *Settings) { s.Prequal.ProbeRateMin = 16*One + 1 }},
		{"prequal.remove_rate", func(s *Settings) { s.Prequal.RemoveRate = 16*One + 1 }},
		{"prequal.pool_capacity", func(s *Settings) { s.Prequal.PoolCapacity = 1 }},
		{"prequal.pool_capacity", func(s *Settings) { s.Prequal.PoolCapacity = 257 }},
		{"prequal.report_age_max", func(s *Settings) { s.Prequal.ReportAgeMax = 0 }},
		{"prequal.report_age_max", func(s *Settings) { s.Prequal.ReportAgeMax = time.Hour + 1 }},
		{"prequal.rif_limit_quantile", func(s *Settings) { s.Prequal.RIFLimitQuantile = One + 1 }},
		{"prequal.pool_drift", func(s *Settings) { s.Prequal.PoolDrift = 0 }},
		{"prequal.reuse_max", func(s *Settings) { s.Prequal.ReuseMax = 0 }},
		{"prequal.reuse_max", func(s *Settings) { s.Prequal.ReuseMax = 1025 }},
		{"prequal.probe_idle_max", func(s *Settings) { s.Prequal.ProbeIdleMax = time.Millisecond - 1 }},
		{"prequal.idle_probes", func(s *Settings) { s.Prequal.IdleProbes = 17 }},
		{"prequal.probe_interval_min", func(s *Settings) { s.Prequal.ProbeIntervalMin = -1 }},
		{"prequal.probe_deadline", func(s *Settings) { s.Prequal.ProbeDeadline = time.Minute + 1 }},
		{"prequal.probes_outstanding_max", func(s *Settings) { s.Prequal.ProbesOutstandingMax = 0 }},
		{"prequal.probes_per_second_max", func(s *Settings) { s.Prequal.ProbesPerSecondMax = 10_000_001 }},
		{"prequal.sync_probes", func(s *Settings) { s.Prequal.SyncProbes = 9 }},
		{"prequal.sync_deadline", func(s *Settings) { s.Prequal.SyncDeadline = 0 }},
		{"shortest_expected_delay.probe_rate", func(s *Settings) { s.ShortestExpectedDelay.ProbeRate = 17 * One }},
		{"shortest_expected_delay.latency_band_millionths", func(s *Settings) { s.ShortestExpectedDelay.LatencyBand = 10*One + 1 }},
		{"shortest_expected_delay.cost_band_millionths", func(s *Settings) { s.ShortestExpectedDelay.CostBand = 10*One + 1 }},
	} {
		settings := DefaultSettings()
		of.spoil(&settings)
		_, err := New(Default, settings)
		var found *SettingError
		if !errors.As(err, &found) || found.Field != of.field || !strings.Contains(err.Error(), " must be ") {
			t.Errorf("%s: %v", of.field, err)
		}
	}
}

func TestPoliciesHaveTheNamesByWhichTheyAreBuilt(t *testing.T) {
	for _, name := range Names() {
		policy, err := New(name, DefaultSettings())
		if err != nil || policy.Name() != name {
			t.Errorf("%s: %v, %v", name, policy, err)
		}
	}
	if Names()[0] != Default {
		t.Errorf("the default is not first: %v", Names())
	}
	if _, err := New("round_robin", DefaultSettings()); err == nil || !strings.Contains(err.Error(), "least_loaded") {
		t.Errorf("the error names what is known: %v", err)
	}
}

func TestPoolRefillsInALargeFleet(t *testing.T) {
	settings := DefaultSettings().Prequal
	for replicas, expected := range map[int]bool{0: false, 10: false, 24: false, 25: true, 1_000: true} {
		if found := settings.Refills(replicas); found != expected {
			t.Errorf("with %d replicas: %v", replicas, found)
		}
	}
	settings = PaperSettings().Prequal
	if paper := PaperSettings(); paper.Validate() != nil || settings.ReuseMax != 1024 || settings.ProbeRateMin < settings.ProbeRate {
		t.Errorf("the paper's settings: %+v", settings)
	}
}
