package policy

import "time"

// LoadReport is a replica's report of its own load: the answer to a probe. Requests in flight and
// latency decide. Everything else is absent if the replica does not report it.
type LoadReport struct {
	// RIF is the number of requests in flight at this instant: queries that the replica has received
	// and not yet finished.
	RIF uint32
	// Latency is the estimated latency of the next query; 0 or less is unknown.
	Latency time.Duration
	// LoadScale is the factor by which the replica scales its load for this one query, in 1/1024.
	// 1024 and 0 are the true load; 102 looks ten times less loaded. Only synchronous probing uses
	// it.
	LoadScale uint16
	// Draining says that the replica takes no new queries: it shuts down, or the server behind its
	// agent is gone.
	Draining bool
	// Incarnation changes whenever the replica restarts; it is only compared for equality.
	Incarnation Optional[uint64]
	// ErrorMillionths is the share of recent queries that failed, in millionths.
	ErrorMillionths Optional[uint32]
	// CPUMillionths is the CPU in use, in millionths of what the replica is allocated. It may exceed
	// one million.
	CPUMillionths Optional[uint32]
	// QueryRateMillis is the rate of finished queries, in thousandths of a query per second.
	QueryRateMillis Optional[uint32]
	// CapacityMilliRIF is the capacity, in thousandths of a request in flight: 1 or more. Below
	// 1,000 the replica gets less than a core.
	CapacityMilliRIF Optional[uint32]
	// Cost is the CPU time per query.
	Cost Optional[time.Duration]
}

// trueLoad is the scale of a replica's true load.
const trueLoad = 1024

func (r *LoadReport) loadScale() uint16 {
	if r.LoadScale == 0 {
		return trueLoad
	}
	return r.LoadScale
}
