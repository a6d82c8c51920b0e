package health_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/internal/vectors"
	"github.com/slackwater/slackwater/go/policy"
)

// TestVectors plays what the Rust core has played with health around its policies, and compares
// each result.
func TestVectors(t *testing.T) {
	files, err := vectors.Files(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			counts, err := vectors.ReplayFile(file, guarded)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d scenarios, %d events, %d snapshots", counts.Scenarios, counts.Events, counts.Snapshots)
		})
	}
}

// guarded builds the policy of a scenario, with health around it.
func guarded(scenario *vectors.Scenario) (policy.Policy, error) {
	from, err := scenario.Settings()
	if err != nil {
		return nil, err
	}
	inner, err := policy.New(scenario.Policy, from)
	if err != nil {
		return nil, err
	}
	settings, err := settingsOf(scenario.Health)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	return health.Guard(inner, settings)
}

// settingsOf reads settings as a scenario has them. A part that is missing is off.
func settingsOf(text json.RawMessage) (health.Settings, error) {
	var read struct {
		Errors *struct {
			Window         time.Duration `json:"window"`
			FailuresInARow uint32        `json:"failures_in_a_row"`
			FailureCost    uint32        `json:"failure_cost"`
		} `json:"errors"`
		Probation *struct {
			Factor     uint32        `json:"factor"`
			LatencyMin time.Duration `json:"latency_min"`
		} `json:"probation"`
		WarmUp *struct {
			ShareMin policy.Millionths `json:"share_min"`
			SpanMax  time.Duration     `json:"span_max"`
		} `json:"warm_up"`
		OutMax       policy.Millionths `json:"out_max"`
		Trials       policy.Millionths `json:"trials"`
		ShadowTrials bool              `json:"shadow_trials"`
		BackOff      time.Duration     `json:"back_off"`
		BackOffMax   time.Duration     `json:"back_off_max"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return health.Settings{}, err
	}
	return health.Settings{
		Errors:       (*health.ErrorSettings)(read.Errors),
		Probation:    (*health.ProbationSettings)(read.Probation),
		WarmUp:       (*health.WarmUpSettings)(read.WarmUp),
		OutMax:       read.OutMax,
		Trials:       read.Trials,
		ShadowTrials: read.ShadowTrials,
		BackOff:      read.BackOff,
		BackOffMax:   read.BackOffMax,
	}, nil
}
