package health

import (
	"cmp"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// Settings says what is watched, and what happens to replicas that fail it. [DefaultSettings] has
// all of it on. The zero value is not valid.
type Settings struct {
	// Errors configures error aversion and pushback. If it is nil, failures do not lower any share.
	Errors *ErrorSettings
	// Probation configures latency probation. If it is nil, slowness does not lower any share.
	Probation *ProbationSettings
	// WarmUp configures warm-up by evidence. If it is nil, a replica that joins or restarts has its
	// whole share at once.
	WarmUp *WarmUpSettings
	// OutMax is the largest part of the replicas that may be out at a time, of those that the caller
	// offers: 0 to 1, default 0.5. It is rounded down (one of three). At 0 no replica is ever out,
	// and bad ones have a sixteenth of their share.
	OutMax policy.Millionths
	// Trials is the number of queries sent as trials to replicas that are out, as a part of all
	// first attempts: 0 to 1, default 0.003. The two that follow a passed trial are extra. At 0 a
	// replica comes back only when the others get as bad, or too few are left.
	Trials policy.Millionths
	// ShadowTrials says that trials are copies of queries that the caller requests with a query whose
	// attempt is [policy.AttemptTrial], so that no client waits for a replica that is out. If the
	// caller has had no copy for as long as BackOffMax, a query is a trial anyway. Default false:
	// trials are queries.
	ShadowTrials bool
	// BackOff is how long a replica is out before its first trial: above 0 to 1 hour, default 1 s.
	// It doubles with each trial that fails, and with each return that does not last.
	BackOff time.Duration
	// BackOffMax is the largest back-off: above 0 to 1 hour, default 4 s. If it is less than
	// BackOff, the back-off does not double.
	BackOffMax time.Duration
}

// ErrorSettings configures error aversion. [DefaultErrorSettings] has the defaults.
type ErrorSettings struct {
	// Window is how long results count: 1 s to 1 hour, default 10 s. Where there are many queries,
	// the newest 200 decide.
	Window time.Duration
	// FailuresInARow is the number of failures in a row that eject at once, unless the others fail,
	// too: 1 to 1,000, default 5. More are needed where a run of this length would occur by chance.
	FailuresInARow uint32
	// FailureCost is the cost of a failure, in latencies of a fleet that is not busy: 0 to 1,000,
	// default 20. A replica that fails every other query gets queries on purpose only if the others
	// are this many times slower than at best. At 0 a failure costs the time that it took.
	FailureCost uint32
}

// ProbationSettings configures latency probation. [DefaultProbationSettings] has the defaults.
type ProbationSettings struct {
	// Factor is how many times slower than the others a replica must be to be slow: 2 to 1,000,
	// default 4. Different hardware may be up to twice as slow without harm.
	Factor uint32
	// LatencyMin is the latency that a replica must exceed, too, to be slow: above 0 to 1 hour,
	// default 100 ms.
	LatencyMin time.Duration
}

// WarmUpSettings configures warm-up by evidence. [DefaultWarmUpSettings] has the defaults.
type WarmUpSettings struct {
	// ShareMin is the initial share: above 0 to 1, default 0.1.
	ShareMin policy.Millionths
	// SpanMax is when a replica has its whole share at the latest: above 0 to 1 hour, default
	// 1 minute.
	SpanMax time.Duration
}

// DefaultSettings returns settings that watch everything, with the defaults.
func DefaultSettings() Settings {
	return Settings{
		Errors:     DefaultErrorSettings(),
		Probation:  DefaultProbationSettings(),
		WarmUp:     DefaultWarmUpSettings(),
		OutMax:     500_000,
		Trials:     3_000,
		BackOff:    time.Second,
		BackOffMax: 4 * time.Second,
	}
}

// DefaultErrorSettings returns the defaults of error aversion.
func DefaultErrorSettings() *ErrorSettings {
	return &ErrorSettings{Window: 10 * time.Second, FailuresInARow: 5, FailureCost: 20}
}

// DefaultProbationSettings returns the defaults of latency probation.
func DefaultProbationSettings() *ProbationSettings {
	return &ProbationSettings{Factor: 4, LatencyMin: 100 * time.Millisecond}
}

// DefaultWarmUpSettings returns the defaults of warm-up.
func DefaultWarmUpSettings() *WarmUpSettings {
	return &WarmUpSettings{ShareMin: 100_000, SpanMax: time.Minute}
}

// StandardSettings returns the settings of Slackwater's proxy where its configuration has none:
// error aversion, and warm-up for at most 10 s, without latency probation. The proxy puts them
// around [policy.Default].
func StandardSettings() Settings {
	s := DefaultSettings()
	s.Probation = nil
	s.WarmUp.SpanMax = 10 * time.Second
	return s
}

// OffSettings returns settings that watch nothing: [Guard] with these returns the policy itself.
func OffSettings() Settings {
	s := DefaultSettings()
	s.Errors, s.Probation, s.WarmUp = nil, nil, nil
	return s
}

// IsOff reports whether nothing is watched.
func (s *Settings) IsOff() bool { return s.Errors == nil && s.Probation == nil && s.WarmUp == nil }

// clone returns settings that share no memory with s.
func (s *Settings) clone() Settings {
	clone := *s
	clone.Errors = cloneOf(s.Errors)
	clone.Probation = cloneOf(s.Probation)
	clone.WarmUp = cloneOf(s.WarmUp)
	return clone
}

func cloneOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	clone := *value
	return &clone
}

// Validate returns a [*policy.SettingError] for the first setting that is out of its range, or nil.
// Settings are named as in the configuration of Slackwater's proxy.
func (s *Settings) Validate() error {
	const (
		part = "from 0 to 1"
		hour = "above 0 and at most 1 hour"
	)
	// What is off has settings in range.
	errors, probation, warmUp := s.Errors, s.Probation, s.WarmUp
	if errors == nil {
		errors = DefaultErrorSettings()
	}
	if probation == nil {
		probation = DefaultProbationSettings()
	}
	if warmUp == nil {
		warmUp = DefaultWarmUpSettings()
	}
	for _, check := range []struct {
		isValid         bool
		field, expected string
	}{
		{within(s.BackOff, 1, time.Hour), "ejection.back_off", hour},
		{within(s.BackOffMax, 1, time.Hour), "ejection.back_off_max", hour},
		{s.OutMax <= policy.One, "ejection.out_max", part},
		{s.Trials <= policy.One, "ejection.trials", part},
		{within(errors.Window, time.Second, time.Hour), "error_aversion.window", "from 1 s to 1 hour"},
		{within(errors.FailuresInARow, 1, 1_000), "error_aversion.failures_in_a_row", "from 1 to 1,000"},
		{errors.FailureCost <= 1_000, "error_aversion.failure_cost", "at most 1,000"},
		{within(probation.Factor, 2, 1_000), "latency_probation.factor", "from 2 to 1,000"},
		{within(probation.LatencyMin, 1, time.Hour), "latency_probation.latency_min", hour},
		{within(warmUp.ShareMin, 1, policy.One), "warm_up.share_min", "above 0 and at most 1"},
		{within(warmUp.SpanMax, 1, time.Hour), "warm_up.span_max", hour},
	} {
		if !check.isValid {
			return &policy.SettingError{Field: check.field, Expected: check.expected}
		}
	}
	return nil
}

func within[T cmp.Ordered](value, low, high T) bool { return value >= low && value <= high }
