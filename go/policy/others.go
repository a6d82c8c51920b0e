package policy

import (
	"math"

	"github.com/slackwater/slackwater/go/internal/ints"
)

// otherClients is what is known of other clients' queries. With it, what they have in flight at an
// unprobed replica is estimated by Little's law.
//
// Let other clients send n queries to the replicas that answer for each of this client's. If they
// treat the unprobed replica as this client does, they send n for one there, too. A query takes as
// long there from any client, so they also have n times as many in flight:
//
//	others = n × this client's mean in flight
//
// Without it, the others would be assumed to have as many there as elsewhere. Then clients that all
// prefer the unprobed replicas would see the others run empty, take that for a sign that the
// unprobed ones are empty, too, and never find out.
type otherClients struct {
	// inFlight is what they have in flight at a replica, by recent reports, in 1/1024.
	inFlight recentValues
	// rateMillis is queries of all clients per second at a replica, by recent reports, in
	// thousandths.
	rateMillis recentValues
	// answered counts this client's queries that replicas that answer probes have answered: such are
	// counted in reported rates.
	answered uint64
	own      recentQueries
}

// note takes in the RIF of a report, of which a part is this client's.
func (o *otherClients) note(rif, ownInFlight uint32) {
	o.inFlight.record(uint64(ints.Sub(rif, ownInFlight)) * fine)
}

// forgetRates forgets the rates, when the first replica becomes unprobed.
func (o *otherClients) forgetRates() { o.rateMillis = recentValues{} }

// begin counts own queries anew, since other replicas answer now than before.
func (o *otherClients) begin() { o.own = recentQueries{} }

// noteRate takes in the query rate of a report.
func (o *otherClients) noteRate(report *LoadReport) {
	if rateMillis, known := report.QueryRateMillis.Get(); known {
		o.rateMillis.record(uint64(rateMillis))
	}
}

// queryAnswered counts a query of this client that a replica that answers probes has answered.
func (o *otherClients) queryAnswered() { o.answered++ }

// read reads how many of these there were.
func (o *otherClients) read(now Instant) { o.own.read(now, o.answered, 0) }

// estimate returns the requests that they are assumed to have in flight at an unprobed replica.
// This client has had these queries there, and has some in flight now. Replicas that report are
// answering.
//
// Unless spread is nil, the estimate has the spread of what is reported: it differs from its mean
// as one report, which is drawn, from the mean of all.
func (o *otherClients) estimate(
	own *recentQueries, inFlight uint32, answering int, spread Draw,
) uint32 {
	// Without a spread, only ordinary values were taken in.
	most, mean := uint64(math.MaxUint64), o.inFlight.mean()
	if spread != nil {
		most, mean = o.inFlight.ordinary()
	}
	expected := mean
	if law, seen, known := o.expected(own, inFlight, answering); known {
		// The mean of what is reported counts like one query.
		all := ints.Add(seen, fine)
		expected = ints.Add(ints.MulDiv(law, seen, all), ints.MulDiv(mean, fine, all))
	}
	reported := mean
	if spread != nil {
		reported = min(o.inFlight.drawn(spread), most)
	}
	others := ints.Sub(ints.Add(reported, expected), mean)
	return uint32(min(ints.Add(others, fine/2)/fine, math.MaxUint32))
}

// expected returns what they have in flight there by Little's law, and the own queries that show
// it, both in 1/1024. It returns false while that is not known.
func (o *otherClients) expected(
	own *recentQueries, inFlight uint32, answering int,
) (law, seen uint64, known bool) {
	_, rateMillis := o.rateMillis.ordinary()
	allRateMillis := ints.Mul(rateMillis, uint64(max(answering, 0)))
	if allRateMillis == 0 || own.spanNS == 0 {
		return 0, 0, false
	}
	ofOthers, known := o.own.ofOthers(allRateMillis)
	if !known {
		return 0, 0, false
	}
	there := ints.Add(own.queries, uint64(inFlight)*fine)
	law = ints.MulDiv(own.inFlightNS, ofOthers, own.spanNS)
	return law, min(there, o.own.queries), true
}
