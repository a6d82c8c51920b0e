package policy

import "github.com/slackwater/slackwater/go/internal/ints"

// ownShare is whether most of the queries that replicas answer are this client's own.
//
// Such a client knows most of what is in flight without being told. It needs fewer probes, and a
// report is good for longer than until the next one: further ones are compared, too.
type ownShare struct {
	// answered counts this client's queries that replicas have answered: such are counted in
	// reported rates.
	answered uint64
	own      recentQueries
	// reports came since the last comparison.
	reports uint32
	// rated is how many of them have a query rate, and ratesMillis the sum of those rates, in
	// thousandths.
	rated       uint32
	ratesMillis uint64
	isMost      bool
}

const (
	// shareCounted is the number of reports of a comparison. At least half of them must have a rate:
	// other replicas are assumed to have as many queries.
	shareCounted = 64
	// shareOthersMax is the most queries of others for each own one, in 1/1024: half as many. With
	// two equal clients it would be one. The rest is for chance: a rate is of four seconds, in which
	// a replica of a large fleet may have had no query or three.
	shareOthersMax = fine / 2
)

// queryOver counts a query of this client, by the outcome that its head or its end shows.
func (s *ownShare) queryOver(outcome Outcome) {
	if outcome.isAnswer() {
		s.answered++
	}
}

// reported takes in the query rate of a report that answers a probe, from one of these replicas.
func (s *ownShare) reported(now Instant, rate Optional[uint32], replicas int) {
	s.reports++
	if rateMillis, known := rate.Get(); known {
		s.rated++
		s.ratesMillis += uint64(rateMillis)
	}
	if s.reports < shareCounted {
		return
	}
	s.own.read(now, s.answered, 0)
	s.isMost = false
	if s.rated >= shareCounted/2 {
		all := ints.MulDiv(s.ratesMillis, uint64(replicas), uint64(s.rated))
		others, known := s.own.ofOthers(all)
		s.isMost = known && others <= shareOthersMax
	}
	s.reports, s.rated, s.ratesMillis = 0, 0, 0
}
