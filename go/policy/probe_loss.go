package policy

const (
	// lostInARowMin is the fewest probes in a row without an answer that make a replica unprobed,
	// and may make it lost.
	lostInARowMin = 3
	// lostInARowMax is the most such probes, whatever the loss. A replica that is gone must be found.
	lostInARowMax = 16
	allProbes     = 1 << 30
	// mistakenMax is the share of living replicas that may count as gone: one in ten thousand. In a
	// fleet of a thousand, one client then wrongly leaves out a tenth of a replica in the mean.
	mistakenMax = allProbes / 10_000
	// lossMemory is the length of the running mean, in probes.
	lossMemory = 256
	// lossPresumed is how many probes count as answered before the first one, so that the first loss
	// shows little.
	lossPresumed = 32
)

// probeLoss is the running mean of lost probes, among replicas that answer.
//
// Probes get lost although their replica lives: on the way, or because the answer is late. If a
// share p of them is lost, the last n probes of a living replica are all lost with probability p^n.
// That is also the share of living replicas that would count as gone at any time, so n is the
// smallest number that makes it negligible.
type probeLoss struct {
	// share is the part of probes that are lost, in parts of allProbes.
	share uint64
	// seen counts probes so far, at most lossMemory − lossPresumed.
	seen uint64
}

// answered notes that a replica has answered after it lost this many probes in a row: it lived all
// the while, so the loss was not its end. The answer is to a probe of this client (own), or to a
// sibling's.
//
// A run that made the replica count as gone is left out. It was gone, or restarted, and shows
// nothing about the others. Where it was alive, shorter runs raise the mean, and with it the length
// of the runs that count.
func (l *probeLoss) answered(lost uint8, own bool) {
	if lost > 0 && lost < l.lostInARow() {
		for range lost {
			l.note(allProbes)
		}
	}
	if own {
		l.note(0)
	}
}

func (l *probeLoss) note(lost uint64) {
	l.seen = min(l.seen+1, lossMemory-lossPresumed)
	// Without any loss, which is usual, the mean stays what it is.
	if l.share != lost {
		l.share = follow(l.share, lost, lossPresumed+l.seen)
	}
}

// lostInARow returns how many probes in a row without an answer make a replica unprobed, and may
// make it lost.
func (l *probeLoss) lostInARow() uint8 {
	mistaken := uint64(allProbes)
	for lost := uint8(1); lost < lostInARowMax; lost++ {
		mistaken = mistaken * l.share / allProbes
		if lost >= lostInARowMin && mistaken <= mistakenMax {
			return lost
		}
	}
	return lostInARowMax
}
