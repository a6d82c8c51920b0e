package load

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/orca"

	"github.com/slackwater/slackwater/go/policy"
)

// The named metrics of an ORCA report.
const (
	// MetricRIF is the number of requests in flight, without the call that is answered.
	MetricRIF = "slackwater.rif"
	// MetricCapacity is the number of requests in flight that the server can carry.
	MetricCapacity = "slackwater.capacity"
	// MetricCost is the CPU time of a call, in seconds.
	MetricCost = "slackwater.cost_seconds"
	// MetricPlainRIF is the same as MetricRIF, under the name that other readers use.
	MetricPlainRIF = "rif"
	// MetricLatency is the estimated latency of the next call, in microseconds.
	MetricLatency = "latency_us"
)

// orcaOptions returns the options that add a report to the trailers of each call. gRPC writes one
// only if something has touched the call's recorder, so an interceptor inside of gRPC's fills it in
// when the handler has returned.
func orcaOptions(r *Reporter) []grpc.ServerOption {
	return []grpc.ServerOption{
		orca.CallMetricsServerOption(nil),
		grpc.ChainUnaryInterceptor(r.recordUnary),
		grpc.ChainStreamInterceptor(r.recordStream),
	}
}

func (r *Reporter) recordUnary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	response, err := handler(ctx, request)
	r.record(ctx, info.FullMethod)
	return response, err
}

func (r *Reporter) recordStream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	err := handler(server, stream)
	r.record(stream.Context(), info.FullMethod)
	return err
}

// record fills in a call's report, unless the call is not counted.
func (r *Reporter) record(ctx context.Context, method string) {
	if _, excluded := r.stats.excluded[method]; excluded {
		return
	}
	recorder := orca.CallMetricsRecorderFromContext(ctx)
	if recorder == nil {
		return
	}
	report := r.load.Report(nil)
	// The call that is answered still counts, and is about to end.
	rif := float64(report.RIF - min(report.RIF, 1))
	recorder.SetNamedMetric(MetricRIF, rif)
	recorder.SetNamedMetric(MetricPlainRIF, rif)
	if report.Latency > 0 {
		recorder.SetNamedMetric(MetricLatency, float64(report.Latency)/1e3)
	}
	if report.CapacityMilliRIF.Known {
		recorder.SetNamedMetric(MetricCapacity, float64(report.CapacityMilliRIF.Value)/1e3)
	}
	if report.Cost.Known {
		recorder.SetNamedMetric(MetricCost, report.Cost.Value.Seconds())
	}
	recordRates(recorder, &report)
}

// recordRates fills in the metrics that gRPC's weighted_round_robin needs. A handler that measures
// them itself has set its own before.
func recordRates(recorder orca.CallMetricsRecorder, report *policy.LoadReport) {
	own := recorder.ServerMetrics()
	if cpu, known := report.CPUMillionths.Get(); known && own.CPUUtilization == -1 {
		recorder.SetCPUUtilization(float64(cpu) / 1e6)
	}
	rate, known := report.QueryRateMillis.Get()
	if !known {
		return
	}
	if own.QPS == -1 {
		recorder.SetQPS(float64(rate) / 1e3)
	}
	if errors, known := report.ErrorMillionths.Get(); known && own.EPS == -1 {
		recorder.SetEPS(float64(rate) / 1e3 * float64(errors) / 1e6)
	}
}
