package health

import (
	"errors"
	"fmt"

	"github.com/slackwater/slackwater/go/policy"
)

// Guard puts health around a policy with an empty fleet. The policy that it returns has the same
// name, and its snapshots and counters include those of health. Like every policy, it is not safe
// for concurrent use. The caller passes everything to it from now on, and nothing to p. If the
// settings watch nothing, Guard returns p itself.
//
// The error says which setting is out of its range.
func Guard(p policy.Policy, settings Settings) (policy.Policy, error) {
	if p == nil {
		return nil, errors.New("health: there is no policy to guard")
	}
	if err := settings.Validate(); err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	if settings.IsOff() {
		return p, nil
	}
	return newGuarded(p, settings.clone()), nil
}
