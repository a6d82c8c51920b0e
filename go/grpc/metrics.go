package slackwatergrpc

import (
	"sync/atomic"
	"time"

	estats "google.golang.org/grpc/experimental/stats"

	"github.com/slackwater/slackwater/go/policy"
)

const (
	targetLabel   = "grpc.target"
	reasonLabel   = "grpc.lb.slackwater.reason"
	localityLabel = "grpc.lb.locality"
)

func counter(name, description, unit string, labels ...string) *estats.Int64CountHandle {
	return estats.RegisterInt64Count(descriptor(name, description, unit, labels...))
}

func descriptor(name, description, unit string, labels ...string) estats.MetricDescriptor {
	return estats.MetricDescriptor{
		Name:           "grpc.lb.slackwater." + name,
		Description:    "EXPERIMENTAL. " + description,
		Unit:           unit,
		Labels:         append([]string{targetLabel}, labels...),
		OptionalLabels: []string{localityLabel},
	}
}

// The metrics, as a stats handler of gRPC can enable them by name.
var (
	picksMetric = counter("picks",
		"Number of picks, by the rule that decided.", "{pick}", reasonLabel)
	picksUnsentMetric = counter("picks_unsent",
		"Number of picks whose connection was lost before the call was sent. gRPC picks again.", "{pick}")
	probesSentMetric = counter("probes_sent",
		"Number of probes to endpoints.", "{probe}")
	probesAnsweredMetric = counter("probes_answered",
		"Number of probes that were answered in time.", "{probe}")
	probesLostMetric = counter("probes_lost",
		"Number of probes that failed, or that were not answered by their deadline.", "{probe}")
	probesUnsentMetric = counter("probes_unsent",
		"Number of probes that could not be sent, through no fault of the endpoint.", "{probe}")
	replicasMetric = estats.RegisterInt64Gauge(descriptor("endpoints",
		"Number of endpoints to choose from: those with a READY connection.", "{endpoint}"))
	probeDurationMetric = estats.RegisterFloat64Histo(probeDuration())
)

func probeDuration() estats.MetricDescriptor {
	d := descriptor("probe_duration", "Time from a probe to its answer.", "s")
	d.Bounds = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1}
	return d
}

// metrics records the metrics of one balancer. The recorder is the user's code, so it is not called
// under a lock.
type metrics struct {
	recorder estats.MetricsRecorder
	target   string
	labels   atomic.Pointer[metricLabels]
}

// metricLabels are the values of labels. They are made once, so that recording allocates nothing.
type metricLabels struct {
	plain    []string
	byReason [len(policy.ReasonCounts{})][]string
}

// probeCounts are what a policy has counted since the last time.
type probeCounts struct {
	answered, lost, unsent uint64
}

func newMetrics(recorder estats.MetricsRecorder, target string) *metrics {
	m := &metrics{recorder: recorder, target: target}
	m.setLocality("")
	return m
}

// setLocality sets the locality that the balancer is for under xDS, or "".
func (m *metrics) setLocality(locality string) {
	labels := &metricLabels{plain: []string{m.target, locality}}
	for reason := range labels.byReason {
		labels.byReason[reason] = []string{m.target, policy.PickReason(reason).String(), locality}
	}
	m.labels.Store(labels)
}

func (m *metrics) picked(reason policy.PickReason) {
	picksMetric.Record(m.recorder, 1, m.labels.Load().byReason[reason]...)
}

func (m *metrics) pickUnsent() {
	picksUnsentMetric.Record(m.recorder, 1, m.labels.Load().plain...)
}

func (m *metrics) probesSent(probes int) {
	if probes > 0 {
		probesSentMetric.Record(m.recorder, int64(probes), m.labels.Load().plain...)
	}
}

func (m *metrics) probeAnswered(after time.Duration) {
	probeDurationMetric.Record(m.recorder, after.Seconds(), m.labels.Load().plain...)
}

func (m *metrics) setReplicas(replicas int) {
	replicasMetric.Record(m.recorder, int64(replicas), m.labels.Load().plain...)
}

func (m *metrics) count(counts probeCounts) {
	labels := m.labels.Load().plain
	for _, counted := range []struct {
		metric *estats.Int64CountHandle
		count  uint64
	}{
		{probesAnsweredMetric, counts.answered},
		{probesLostMetric, counts.lost},
		{probesUnsentMetric, counts.unsent},
	} {
		if counted.count > 0 {
			counted.metric.Record(m.recorder, int64(counted.count), labels...)
		}
	}
}
