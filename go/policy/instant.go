package policy

import (
	"math"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// Instant is a point on the caller's clock, in nanoseconds since the caller's epoch. Arithmetic on
// it saturates, so a clock that steps back is harmless.
type Instant uint64

// end is the last point of the clock. As a time that may be absent, it counts as absent.
const end Instant = math.MaxUint64

// Add returns the point that lies span later. A negative span counts as 0.
func (t Instant) Add(span time.Duration) Instant { return t.plus(spanNS(span)) }

// Since returns the span since an earlier point; 0 if it is not earlier. A span of more than 292
// years counts as that.
func (t Instant) Since(earlier Instant) time.Duration { return duration(t.nsSince(earlier)) }

func (t Instant) plus(ns uint64) Instant { return Instant(ints.Add(uint64(t), ns)) }

func (t Instant) nsSince(earlier Instant) uint64 {
	if t <= earlier {
		return 0
	}
	return uint64(t - earlier)
}

// spanNS returns a span in nanoseconds, at least 0.
func spanNS(span time.Duration) uint64 { return uint64(max(span, 0)) }

// duration returns a span of this many nanoseconds, at most the longest that can be expressed.
func duration(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

// maybeInstant is an optional instant in the size of an instant, for tables as long as the fleet.
// It holds the distance to the last instant, so that the zero value is absent, as the last instant
// itself is.
type maybeInstant uint64

func maybe(t Instant) maybeInstant { return maybeInstant(end - t) }

func (m maybeInstant) get() (Instant, bool) { return end - Instant(m), m != 0 }
