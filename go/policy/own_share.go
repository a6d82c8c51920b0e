package policy

import "github.com/slackwater/slackwater/go/internal/ints"

// ownShare is how many queries other clients send for each of this client's own.
//
// A client that sends most of them knows most of what is in flight without being told. It needs
// fewer probes, and a report is good for longer than until the next one: further ones are compared,
// too.
//
// The others choose by such reports as this client has, so they send to a replica when it does. For
// each query that it has sent there since the replica reported, their number of queries counts as
// in flight there, too.
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
	// others is how many queries others send for each own one, in 1/1024, if that is known.
	others Optional[uint64]
}

const (
	// shareCounted is the number of reports of a comparison. At least half of them must have a rate:
	// other replicas are assumed to have as many queries.
	shareCounted = 64
	// shareOthersMax is the most queries of others for each own one, in 1/1024: half as many. With
	// two equal clients it would be one. The rest is for chance: a rate is of four seconds, in which
	// a replica of a large fleet may have had no query or three.
	shareOthersMax = fine / 2
	// alikeMax is the most queries of others that count as sent alike with each own one, in 1/1024.
	// Many clients see other reports than this one does.
	alikeMax = uint64(4 * fine)
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
	s.others = Optional[uint64]{}
	if s.rated >= shareCounted/2 {
		all := ints.MulDiv(s.ratesMillis, uint64(replicas), uint64(s.rated))
		if others, known := s.own.ofOthers(all); known {
			s.others = Some(others)
		}
	}
	s.reports, s.rated, s.ratesMillis = 0, 0, 0
}

// isMost is whether this client sends most of the queries.
func (s *ownShare) isMost() bool {
	others, known := s.others.Get()
	return known && others <= shareOthersMax
}

// othersAlike returns the queries of others that count as sent alike with each own one, in 1/1024.
// None do while their rate is unknown.
func (s *ownShare) othersAlike() uint64 {
	return min(s.others.Or(0), alikeMax)
}
