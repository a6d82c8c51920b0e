package slackwatergrpc

import (
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// loadKey is the trailer with a server's load.
var loadKey = strings.ToLower(probe.HeaderLoad)

// carriedKey is the trailer with a server's ORCA report. gRPC's metadata has its value decoded from
// base64.
const carriedKey = "endpoint-load-metrics-bin"

// The named metrics of a report, and the numbers of its fields on the wire. Package load writes
// them, and slackwater serve reads the same.
const (
	carriedRIF      = "slackwater.rif"
	carriedCapacity = "slackwater.capacity"
	carriedCost     = "slackwater.cost_seconds"
	plainRIF        = "rif"
	plainLatency    = "latency_us"

	namedMetricsField = 8
	mapKeyField       = 1
	mapValueField     = 2
)

// carriedReport reads the load that a server reports with the end of a call.
func carriedReport(trailer metadata.MD) (policy.LoadReport, bool) {
	switch values := trailer[loadKey]; len(values) {
	case 0:
		return orcaReportOf(trailer)
	case 1:
		report, err := probe.ParseCarried(values[0])
		return report, err == nil
	}
	// Two servers seem to have answered.
	return policy.LoadReport{}, false
}

// orcaReportOf reads an ORCA report. It reads the few fields that matter instead of the whole
// message, which would make every user of this package link the generated code of xDS. Without
// requests in flight there is no report.
func orcaReportOf(trailer metadata.MD) (policy.LoadReport, bool) {
	values := trailer[carriedKey]
	if len(values) != 1 {
		return policy.LoadReport{}, false
	}
	metrics, ok := readNamedMetrics(values[0])
	if !ok || !metrics.rif.Known {
		return policy.LoadReport{}, false
	}
	report := policy.LoadReport{RIF: scaled(metrics.rif.Value, 1)}
	if isAboveZero(metrics.capacity) {
		report.CapacityMilliRIF = policy.Some(max(scaled(metrics.capacity, 1000), 1))
	}
	if isAboveZero(metrics.costSeconds) {
		report.Cost = policy.Some(seconds(metrics.costSeconds))
	}
	if isAboveZero(metrics.latencyMicros) {
		report.Latency = seconds(metrics.latencyMicros / 1e6)
	}
	return report, true
}

// namedMetrics are the metrics that are used. A server may send any number of others.
type namedMetrics struct {
	rif                                  policy.Optional[float64]
	capacity, costSeconds, latencyMicros float64
}

func (m *namedMetrics) set(name string, value float64) {
	switch name {
	case carriedRIF, plainRIF:
		// Both names may be there. The specific one wins.
		if value >= 0 && !math.IsInf(value, 0) && (name == carriedRIF || !m.rif.Known) {
			m.rif = policy.Some(value)
		}
	case carriedCapacity:
		m.capacity = value
	case carriedCost:
		m.costSeconds = value
	case plainLatency:
		m.latencyMicros = value
	}
}

// readNamedMetrics reads the field named_metrics of an OrcaLoadReport, and skips all others. It
// returns false if the message is malformed.
func readNamedMetrics(message string) (namedMetrics, bool) {
	var metrics namedMetrics
	rest := []byte(message)
	for len(rest) > 0 {
		number, kind, size := protowire.ConsumeTag(rest)
		if size < 0 {
			return metrics, false
		}
		rest = rest[size:]
		if number != namedMetricsField || kind != protowire.BytesType {
			size = protowire.ConsumeFieldValue(number, kind, rest)
			if size < 0 {
				return metrics, false
			}
			rest = rest[size:]
			continue
		}
		entry, size := protowire.ConsumeBytes(rest)
		if size < 0 {
			return metrics, false
		}
		rest = rest[size:]
		name, value, ok := readMapEntry(entry)
		if !ok {
			return metrics, false
		}
		metrics.set(name, value)
	}
	return metrics, true
}

func readMapEntry(entry []byte) (name string, value float64, ok bool) {
	for len(entry) > 0 {
		number, kind, size := protowire.ConsumeTag(entry)
		if size < 0 {
			return "", 0, false
		}
		entry = entry[size:]
		switch {
		case number == mapKeyField && kind == protowire.BytesType:
			var key []byte
			if key, size = protowire.ConsumeBytes(entry); size >= 0 {
				name = string(key)
			}
		case number == mapValueField && kind == protowire.Fixed64Type:
			var bits uint64
			if bits, size = protowire.ConsumeFixed64(entry); size >= 0 {
				value = math.Float64frombits(bits)
			}
		default:
			size = protowire.ConsumeFieldValue(number, kind, entry)
		}
		if size < 0 {
			return "", 0, false
		}
		entry = entry[size:]
	}
	return name, value, true
}

// isAboveZero reports whether a metric is known. In ORCA, 0 is the same as absent.
func isAboveZero(value float64) bool {
	return value > 0 && !math.IsInf(value, 0)
}

// scaled returns a metric of at least 0 in parts, as an integer. Values beyond its range become its
// maximum.
func scaled(value, parts float64) uint32 {
	return uint32(min(math.Round(value*parts), math.MaxUint32))
}

// seconds returns a span of time. Values beyond 292 years become that.
func seconds(value float64) time.Duration {
	nanos := value * float64(time.Second)
	if nanos >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(nanos)
}
