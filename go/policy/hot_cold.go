package policy

import "math"

// The hot–cold lexicographic rule: cold before hot, the cold by latency, the hot by RIF.
//
// A report is hot when its RIF has reached the limit. Cold ones come before hot ones. Cold ones are
// ordered by latency and then RIF, hot ones by RIF and then latency. "Worst" is the reverse of the
// same order, so choice and removal cannot disagree.

var hotColdOrder = []Step{
	{By: "hot"},
	{By: "latency_us", Unless: "hot"},
	{By: "in_flight"},
	{By: "latency_us"},
}

const hotColdFormula = "hot = requests in flight ≥ RIF limit; cold before hot, the cold by latency, " +
	"the hot by requests in flight"

// byHotCold is how the rule compares.
var byHotCold = &Comparison{
	Name:    "hot_cold",
	Formula: hotColdFormula,
	Shared:  []Factor{requests("rif_limit", "RIF limit", 1)},
	Factors: []Factor{
		requests("in_flight", "requests in flight", 1),
		microseconds("latency_us", "latency", 1_000),
		flag("hot", "hot"),
	},
	Order:  hotColdOrder,
	Equals: EqualsDraw,
}

// byHotColdScaled is the comparison when replicas scale what they report.
var byHotColdScaled = &Comparison{
	Name:    "hot_cold_scaled",
	Formula: hotColdFormula,
	Shared:  byHotCold.Shared,
	Factors: []Factor{
		requests("in_flight", "requests in flight, scaled", 1_024),
		microseconds("latency_us", "latency", 1_000),
		flag("hot", "hot"),
	},
	Order:  hotColdOrder,
	Equals: EqualsDraw,
}

// sharedLimit returns the values that all candidates have in common.
func sharedLimit(limit Optional[uint32]) Values {
	if !limit.Known {
		return Values{}
	}
	return valuesOf(uint64(limit.Value))
}

const (
	// signalMax: values above count as equal.
	signalMax = 1<<56 - 1
	hotBit    = 1 << 63
	// noLimit is a limit that no RIF reaches.
	noLimit = math.MaxUint64
)

// rifLimitOf returns a RIF limit in the units of a [load] whose RIF is in these parts.
func rifLimitOf(limit Optional[uint32], parts uint64) uint64 {
	if !limit.Known {
		return noLimit
	}
	return uint64(limit.Value) * parts
}

// hotColdPlace returns the place of a report of this load, if a RIF of limit or more is hot. From
// the top: hot (1 bit), then latency (63) and RIF (56) of a cold report, RIF and latency of a hot
// one. Values of 2^56 or more count as equal in the first part.
//
// Section 4 of the paper says that hot RIF "exceeds" the limit. But with the limit at the maximum
// (section 5.3, Q = 0.999) "a replica tied for the maximum" is hot, and at Q = 0 all are. So hot is
// ≥.
func hotColdPlace(of load, limit uint64) place {
	if of.rif >= limit {
		return place{first: hotBit | min(of.rif, signalMax), second: of.latencyNS}
	}
	return place{first: min(of.latencyNS, signalMax), second: of.rif}
}

// isHot reports whether a report is hot whose place begins with first.
func isHot(first uint64) bool { return first&hotBit != 0 }

// hotColdReason returns why a report was chosen whose place begins with first.
func hotColdReason(first uint64) PickReason {
	if isHot(first) {
		return ReasonHot
	}
	return ReasonCold
}

// hotColdValues returns the compared values of a report in this place.
func hotColdValues(of load, at place) Values {
	return valuesOf(of.rif, of.latencyNS, at.first>>63)
}
