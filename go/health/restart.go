package health

import (
	"math"

	"github.com/slackwater/slackwater/go/policy"
)

// restartsApartNS is the time after a restart in which further restarts do not count.
const restartsApartNS = 5_000_000_000

// never is the last instant of the clock. Where an instant may be absent, it counts as none.
const never policy.Instant = math.MaxUint64

// incarnations detects restarts: it keeps which processes of a replica the reports have named.
type incarnations struct {
	// known holds the last two, the newer first. Two processes that take turns at one address are
	// not a restart.
	known       [2]policy.Optional[uint64]
	restartedAt policy.Instant
}

func newIncarnations() incarnations { return incarnations{restartedAt: never} }

// named takes in the incarnation of a report, and reports whether the replica has restarted.
func (i *incarnations) named(now policy.Instant, incarnation uint64) bool {
	name := policy.Some(incarnation)
	if i.known[0] == name || i.known[1] == name {
		return false
	}
	isFirst := !i.known[0].Known
	i.known = [2]policy.Optional[uint64]{name, i.known[0]}
	isRecent := i.restartedAt != never && since(now, i.restartedAt) < restartsApartNS
	if isFirst || isRecent {
		return false
	}
	i.restartedAt = now
	return true
}
