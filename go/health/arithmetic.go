package health

import (
	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// whole is a share of all, in millionths.
const whole uint32 = 1_000_000

// since returns the nanoseconds from earlier to now, or 0 if earlier is later.
func since(now, earlier policy.Instant) uint64 { return uint64(ints.Sub(now, earlier)) }

// after returns the instant that many nanoseconds later.
func after(now policy.Instant, ns uint64) policy.Instant { return ints.Add(now, policy.Instant(ns)) }
