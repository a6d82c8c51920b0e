package probepb

import (
	"fmt"
	"math"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// HintBytesMax is the largest size of a hint, in bytes. A server refuses a longer one with
// InvalidArgument.
const HintBytesMax = 256

// unscaled is the load scale of a server's true load, in 1/1024.
const unscaled = 1024

// CheckHint returns an error if hint is longer than [HintBytesMax].
func CheckHint(hint []byte) error {
	if len(hint) > HintBytesMax {
		return fmt.Errorf("probe hint of %d bytes: at most %d bytes are allowed", len(hint), HintBytesMax)
	}
	return nil
}

// NewLoadReport returns the message for a report. A latency that is unknown (0 or less) is absent,
// as is a load scale of 1024. A negative cost is unknown, too.
func NewLoadReport(report policy.LoadReport) *LoadReport {
	// The optional fields are pointers. They point into one allocation.
	m := &struct {
		LoadReport
		latency, incarnation, cost            uint64
		scale, errors, cpu, rate, capacityRIF uint32
	}{}
	m.Rif = report.RIF
	m.Draining = report.Draining
	if report.Latency > 0 {
		m.latency = uint64(report.Latency)
		m.LatencyNs = &m.latency
	}
	if report.LoadScale != 0 && report.LoadScale != unscaled {
		m.scale = uint32(report.LoadScale)
		m.LoadScale = &m.scale
	}
	if report.Incarnation.Known {
		m.incarnation = report.Incarnation.Value
		m.Incarnation = &m.incarnation
	}
	if report.ErrorMillionths.Known {
		m.errors = report.ErrorMillionths.Value
		m.ErrorMillionths = &m.errors
	}
	if report.CPUMillionths.Known {
		m.cpu = report.CPUMillionths.Value
		m.CpuMillionths = &m.cpu
	}
	if report.QueryRateMillis.Known {
		m.rate = report.QueryRateMillis.Value
		m.QueryRateMillis = &m.rate
	}
	if report.CapacityMilliRIF.Known {
		m.capacityRIF = report.CapacityMilliRIF.Value
		m.CapacityMillirif = &m.capacityRIF
	}
	if report.Cost.Known && report.Cost.Value >= 0 {
		m.cost = uint64(report.Cost.Value)
		m.CostNs = &m.cost
	}
	return &m.LoadReport
}

// AsLoadReport returns the report in x, which may come from a hostile server: a latency or a cost
// beyond 2^63 − 1 ns (292 years) becomes that, a load scale beyond 65,535 becomes that, and a load
// scale of 0 becomes 1. All other values are in range. A nil message is a report of no load.
func (x *LoadReport) AsLoadReport() policy.LoadReport {
	if x == nil {
		return policy.LoadReport{}
	}
	report := policy.LoadReport{
		RIF:              x.Rif,
		Latency:          span(x.GetLatencyNs()),
		Draining:         x.Draining,
		Incarnation:      optional(x.Incarnation),
		ErrorMillionths:  optional(x.ErrorMillionths),
		CPUMillionths:    optional(x.CpuMillionths),
		QueryRateMillis:  optional(x.QueryRateMillis),
		CapacityMilliRIF: optional(x.CapacityMillirif),
	}
	if x.LoadScale != nil {
		report.LoadScale = uint16(min(max(*x.LoadScale, 1), math.MaxUint16))
	}
	if x.CostNs != nil {
		report.Cost = policy.Some(span(*x.CostNs))
	}
	return report
}

func optional[T any](field *T) policy.Optional[T] {
	if field == nil {
		return policy.Optional[T]{}
	}
	return policy.Some(*field)
}

func span(ns uint64) time.Duration {
	return time.Duration(min(ns, math.MaxInt64))
}
