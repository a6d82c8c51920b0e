package policy

import "github.com/slackwater/slackwater/go/internal/ints"

// ownShare is whether most of the queries that replicas get are this client's own.
//
// Such a client knows most of what is in flight without being told. It needs fewer probes, and a
// report is good for longer than until the next one: further ones are compared, too.
type ownShare struct {
	// own are this client's queries.
	own recentQueries
	// reports came since the last comparison.
	reports uint32
	// ratesMillis is the sum of their query rates, in thousandths.
	ratesMillis uint64
	isMost      bool
}

const (
	// shareCounted is the number of reports of a comparison.
	shareCounted = 64
	// shareOthersMax is the most queries of others for each own one, in 1/1024: half as many. With
	// two equal clients it would be one, and the mean of 64 unequal rates is off by a tenth or two.
	shareOthersMax = fine / 2
)

// reported takes in the query rate of a report that answers a probe, from one of these replicas,
// after this client has sent this many queries. Without the rate, or in a panic with no available
// replica, nothing is known.
func (s *ownShare) reported(now Instant, rate Optional[uint32], replicas int, sent uint64) {
	rateMillis, known := rate.Get()
	if !known || replicas == 0 {
		*s = ownShare{own: s.own}
		return
	}
	s.reports++
	s.ratesMillis += uint64(rateMillis)
	if s.reports >= shareCounted {
		all := ints.MulDiv(s.ratesMillis, uint64(replicas), shareCounted)
		s.own.read(now, sent, 0)
		others, known := s.own.ofOthers(all)
		*s = ownShare{own: s.own, isMost: known && others <= shareOthersMax}
	}
}
