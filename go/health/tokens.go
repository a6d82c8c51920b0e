package health

import (
	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// tokens is a token bucket that queries fill and that trials are paid from.
type tokens struct {
	// share is what a query pays in, as a share of the price of a trial.
	share policy.Millionths
	max   uint64
	// saved is the balance, in millionths of that price.
	saved uint64
}

// newTokens returns an empty bucket, which holds the price of at most savedMax trials.
func newTokens(share policy.Millionths, savedMax uint32) tokens {
	return tokens{share: share, max: uint64(savedMax) * uint64(whole)}
}

// earn adds the share of one query.
func (t *tokens) earn() { t.saved = min(t.saved+uint64(t.share), t.max) }

// has reports whether the balance is enough for that many trials.
func (t *tokens) has(trials uint32) bool { return t.saved >= uint64(trials)*uint64(whole) }

// spend pays for a trial that is sent in any case, with what there is if that is not enough.
func (t *tokens) spend() { t.saved = ints.Sub(t.saved, uint64(whole)) }
