package vectors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

// Build is a function that builds the policy of a scenario.
type Build func(scenario *Scenario) (policy.Policy, error)

// Bare builds the policy of a scenario without health.
func Bare(scenario *Scenario) (policy.Policy, error) {
	if scenario.Health != nil {
		return nil, fmt.Errorf("scenario %s has health around the policy", scenario.Name)
	}
	settings, err := scenario.Settings()
	if err != nil {
		return nil, err
	}
	return policy.New(scenario.Policy, settings)
}

// Keyed builds the policy of a scenario, with health around it if the scenario has it, and keys
// around both.
func Keyed(scenario *Scenario) (policy.Policy, error) {
	build := Bare
	if scenario.Health != nil {
		build = Guarded
	}
	inner, err := build(scenario)
	if err != nil {
		return nil, err
	}
	var settings keys.Settings
	err = decodeStrictly(scenario.Key, &struct {
		BalanceFactor  *policy.Millionths `json:"balance_factor"`
		Set            *uint8             `json:"set"`
		Partitions     *uint16            `json:"partitions"`
		ReplicateMax   *uint8             `json:"replicate_max"`
		ReplicateAbove *policy.Millionths `json:"replicate_above"`
		ReplicateTime  *time.Duration     `json:"replicate_time"`
		HintHomes      *uint8             `json:"hint_homes"`
	}{
		&settings.BalanceFactor, &settings.Set, &settings.Partitions, &settings.ReplicateMax,
		&settings.ReplicateAbove, &settings.ReplicateTime, &settings.HintHomes,
	})
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return keys.Wrap(inner, settings)
}

// decodeStrictly reads settings. An unknown key is an error: the vectors would mean more than this
// implementation plays.
func decodeStrictly(text json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// Guarded builds the policy of a scenario, with health around it.
func Guarded(scenario *Scenario) (policy.Policy, error) {
	from, err := scenario.Settings()
	if err != nil {
		return nil, err
	}
	inner, err := policy.New(scenario.Policy, from)
	if err != nil {
		return nil, err
	}
	settings, err := healthOf(scenario.Health)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	return health.Guard(inner, settings)
}

// healthOf reads settings of health as a scenario has them. A part that is missing is off.
func healthOf(text json.RawMessage) (health.Settings, error) {
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
	if err := decodeStrictly(text, &read); err != nil {
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
