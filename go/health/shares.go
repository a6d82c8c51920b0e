package health

import (
	"math/bits"
	"slices"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	// sparedMax is the most replicas that are spared, since each query draws for all of them. If
	// more have less than their share, those with the smallest are spared, and held-back ones before
	// new ones.
	sparedMax = 64
	// avoidedMax is the most replicas that a query avoids.
	avoidedMax = sparedMax + 16
)

// spared is a replica that has less than its whole share.
type spared struct {
	replica policy.ReplicaID
	share   uint32
	// rank is less for a replica that is spared first.
	rank uint64
}

// shares are the replicas in the choice that have less than their whole share. A query avoids each
// of them with a probability of one minus its share.
type shares struct {
	less []spared
	// last is the place of the one of less to replace first once there are too many, or -1 if it is
	// not known.
	last int
	// avoid is a buffer for the replicas that one query avoids.
	avoid []policy.ReplicaID
}

func newShares() shares {
	return shares{
		less:  make([]spared, 0, sparedMax),
		last:  -1,
		avoid: make([]policy.ReplicaID, 0, avoidedMax),
	}
}

func (s *shares) clear() { s.less, s.last = s.less[:0], -1 }

// add adds a replica. isHeldBack: its share is small for what it did, not because it is new.
func (s *shares) add(replica policy.ReplicaID, share uint32, isHeldBack bool) {
	if share == whole {
		return
	}
	added := spared{replica: replica, share: share, rank: uint64(share)}
	if !isHeldBack {
		added.rank |= 1 << 32
	}
	if len(s.less) < sparedMax {
		s.less = append(s.less, added)
		return
	}
	if s.last < 0 {
		s.last = s.findLast()
	}
	if s.less[s.last].rank > added.rank {
		s.less[s.last] = added
		s.last = -1
	}
}

// findLast returns the place of the greatest rank, and of equals the last.
func (s *shares) findLast() int {
	last := 0
	for place := range s.less {
		if s.less[place].rank >= s.less[last].rank {
			last = place
		}
	}
	return last
}

// avoided returns the replicas that a query must avoid: those it has tried, and others by chance,
// with one draw for each that has less than its share. It returns only those tried if no available
// replica would be left, because a bad replica is better than none. The replica that the query is
// pinned to is never avoided, because only that one has what the query needs.
func (s *shares) avoided(fleet *policy.Fleet, query *policy.Query, draw policy.Draw) []policy.ReplicaID {
	s.avoid = s.avoid[:0]
	for _, less := range s.less {
		drawn, _ := bits.Mul64(draw.Draw(), uint64(whole))
		isPinned := query.Pinned == policy.Some(less.replica)
		if drawn >= uint64(less.share) && !isPinned && fleet.IsAvailable(less.replica) {
			s.avoid = append(s.avoid, less.replica)
		}
	}
	if len(s.avoid) == 0 {
		return query.Avoid
	}
	for _, tried := range query.Avoid {
		// There is no space for all that the query has tried: it spares no replica.
		if len(s.avoid) == avoidedMax {
			return query.Avoid
		}
		if !slices.Contains(s.avoid, tried) {
			s.avoid = append(s.avoid, tried)
		}
	}
	available := 0
	for _, replica := range s.avoid {
		if fleet.IsAvailable(replica) {
			available++
		}
	}
	if available >= len(fleet.Available()) {
		return query.Avoid
	}
	return s.avoid
}
