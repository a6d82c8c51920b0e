package health

import (
	"errors"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

func TestSettingsOutOfRangeAreRejectedByName(t *testing.T) {
	for _, c := range []struct {
		field string
		spoil func(*Settings)
	}{
		{"ejection.back_off", func(s *Settings) { s.BackOff = 0 }},
		{"ejection.back_off", func(s *Settings) { s.BackOff = -time.Second }},
		{"ejection.back_off_max", func(s *Settings) { s.BackOffMax = time.Hour + 1 }},
		{"ejection.out_max", func(s *Settings) { s.OutMax = policy.One + 1 }},
		{"ejection.trials", func(s *Settings) { s.Trials = policy.One + 1 }},
		{"error_aversion.window", func(s *Settings) { s.Errors.Window = time.Second - 1 }},
		{"error_aversion.window", func(s *Settings) { s.Errors.Window = time.Hour + 1 }},
		{"error_aversion.failures_in_a_row", func(s *Settings) { s.Errors.FailuresInARow = 0 }},
		{"error_aversion.failures_in_a_row", func(s *Settings) { s.Errors.FailuresInARow = 1_001 }},
		{"error_aversion.failure_cost", func(s *Settings) { s.Errors.FailureCost = 1_001 }},
		{"latency_probation.factor", func(s *Settings) { s.Probation.Factor = 1 }},
		{"latency_probation.factor", func(s *Settings) { s.Probation.Factor = 1_001 }},
		{"latency_probation.latency_min", func(s *Settings) { s.Probation.LatencyMin = 0 }},
		{"warm_up.share_min", func(s *Settings) { s.WarmUp.ShareMin = 0 }},
		{"warm_up.share_min", func(s *Settings) { s.WarmUp.ShareMin = policy.One + 1 }},
		{"warm_up.span_max", func(s *Settings) { s.WarmUp.SpanMax = 0 }},
	} {
		s := DefaultSettings()
		c.spoil(&s)
		var wrong *policy.SettingError
		if _, err := Guard(&deaf{}, s); !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

func TestSettingsAtTheirBoundsAreAccepted(t *testing.T) {
	s := DefaultSettings()
	for _, set := range []func(){
		func() {},
		func() { s.BackOff, s.BackOffMax, s.OutMax, s.Trials = 1, 1, 0, 0 },
		func() { s.BackOff, s.BackOffMax = time.Hour, time.Hour },
		func() { s.OutMax, s.Trials = policy.One, policy.One },
		func() { *s.Errors = ErrorSettings{Window: time.Second, FailuresInARow: 1} },
		func() { *s.Errors = ErrorSettings{time.Hour, 1_000, 1_000} },
		func() { *s.Probation = ProbationSettings{2, 1} },
		func() { *s.Probation = ProbationSettings{1_000, time.Hour} },
		func() { *s.WarmUp = WarmUpSettings{1, 1} },
		func() { *s.WarmUp = WarmUpSettings{policy.One, time.Hour} },
		func() { s = OffSettings() },
		func() { s = StandardSettings() },
	} {
		set()
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	s := DefaultSettings()
	if *s.Errors != (ErrorSettings{10 * time.Second, 5, 20}) ||
		*s.Probation != (ProbationSettings{4, 100 * time.Millisecond}) ||
		*s.WarmUp != (WarmUpSettings{100_000, time.Minute}) {
		t.Errorf("parts: %+v %+v %+v", *s.Errors, *s.Probation, *s.WarmUp)
	}
	s.Errors, s.Probation, s.WarmUp = nil, nil, nil
	if s != (Settings{OutMax: 500_000, Trials: 3_000, BackOff: time.Second, BackOffMax: 4 * time.Second}) {
		t.Errorf("%+v", s)
	}
	if s := StandardSettings(); s.Errors == nil || s.Probation != nil || s.WarmUp.SpanMax != 10*time.Second {
		t.Errorf("standard: %+v", s)
	}
}

func TestAPolicyThatIsNotWatchedIsNotWrapped(t *testing.T) {
	inner := &deaf{}
	if p, err := Guard(inner, OffSettings()); err != nil || p != policy.Policy(inner) {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := Guard(nil, DefaultSettings()); err == nil {
		t.Errorf("no policy is guarded")
	}
}

func TestTheGuardKeepsItsOwnSettings(t *testing.T) {
	s := DefaultSettings()
	p, err := Guard(&deaf{}, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Errors.FailuresInARow = 7
	if found := p.(*guarded).settings.Errors.FailuresInARow; found != 5 {
		t.Errorf("a change afterwards shows: %d", found)
	}
}

// deaf is a policy of which no method is called.
type deaf struct{ policy.Policy }
