package policy

import "github.com/slackwater/slackwater/go/internal/ints"

const (
	// burstMin is the capacity of the bucket if that is more than a tenth of a second's worth: no
	// query, and no idle span, needs more probes at once.
	burstMin = 16
	// probePrice is the price of a probe, in units that flow in per nanosecond at one probe a second.
	probePrice = 1_000_000_000
)

// rateCap is the largest probe rate: a bucket of tokens, one for each probe, whatever its cause.
// Which probe is dropped when the bucket is empty is as random as the targets, so no replica and no
// idle span is skipped permanently.
type rateCap struct {
	// perSecond is 0 for no limit.
	perSecond uint64
	level     uint64
	filledAt  Instant
}

func newRateCap(perSecond uint32) rateCap {
	c := rateCap{perSecond: uint64(perSecond)}
	c.level = c.most()
	return c
}

func (c *rateCap) most() uint64 { return max(c.perSecond/10, burstMin) * probePrice }

// take pays for a probe. It returns false if the probe must not be sent.
func (c *rateCap) take(now Instant) bool {
	if c.perSecond == 0 {
		return true
	}
	flown := ints.Mul(now.nsSince(c.filledAt), c.perSecond)
	c.filledAt = now
	c.level = min(ints.Add(c.level, flown), c.most())
	if c.level < probePrice {
		return false
	}
	c.level -= probePrice
	return true
}

// giveBack refunds a probe that was not sent.
func (c *rateCap) giveBack() { c.level = min(c.level+probePrice, c.most()) }
