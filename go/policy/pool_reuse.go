package policy

import "github.com/slackwater/slackwater/go/internal/ints"

// reuseFloorMax is the largest floor under the reuse limit, in millionths of a use: with one or two
// replicas, or almost no reports, the balance at two entries is unbounded.
const reuseFloorMax = 16 * uint64(One)

// reuseBalance is what the reuse limit depends on: how many queries one report may decide.
type reuseBalance struct {
	// poolCapacity is m in the paper.
	poolCapacity uint16
	// replicas is n.
	replicas int
	// probeRate is r_probe: reports that arrive per query.
	probeRate Millionths
	// removeRate is r_remove.
	removeRate Millionths
	// poolDrift is δ.
	poolDrift Millionths
	reuseMax  uint16
}

// limit returns the reuse limit in millionths of a use.
//
// A pool of m entries in a fleet of n gains (1 − m/n) · r_probe reports per query (the others
// replace an entry of their replica). It loses r_remove, and one for each report that is used up.
// So
//
//	b = max{1, (1 + δ) / ((1 − m/n) · r_probe − r_remove)}   (equation 1 of the paper)
//
// lets it grow by a margin of δ. Clients that use the same full pool again and again herd, so
// reuseMax caps this. The cap must not take the uses without which the pool runs dry: the pool must
// not fall below the two entries that a choice needs. The same balance at two entries, with nothing
// removed, is
//
//	floor = max{1, (1 + δ) / ((1 − 2/n) · r_probe)}
//
// which is never above equation (1), and is its literal 1 at three probes per query. It is used
// alone where equation (1) has no solution: if its denominator is not positive, the pool cannot
// grow to m, however often its reports are used.
func (b *reuseBalance) limit() uint64 {
	n, probeRate := int64(b.replicas), int64(b.probeRate)
	margin := uint64(One+b.poolDrift) * uint64(n)
	floor := reuseFloorMax
	if gain := (n - 2) * probeRate; gain > 0 {
		floor = min(max(ints.MulDiv(margin, uint64(One), uint64(gain)), uint64(One)), reuseFloorMax)
	}
	gain := (n-int64(b.poolCapacity))*probeRate - n*int64(b.removeRate)
	if gain <= 0 {
		return floor
	}
	uses := ints.MulDiv(margin, uint64(One), uint64(gain))
	return max(min(uses, uint64(b.reuseMax)*uint64(One)), floor)
}

// drawUses rounds a reuse limit in millionths up or down at random to a whole number of uses, so
// that the mean holds. It is drawn once, when the report enters the pool.
func drawUses(limit uint64, draw Draw) uint32 {
	whole, fraction := uint32(limit/uint64(One)), uint32(limit%uint64(One))
	if fraction > 0 && Below(draw, uint32(One)) < fraction {
		return whole + 1
	}
	return whole
}
