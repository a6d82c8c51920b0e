package slackwatergrpc

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	estats "google.golang.org/grpc/experimental/stats"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// readyPicker is the picker of an endpoint with a connection.
type readyPicker struct{}

func (readyPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, nil
}

// BenchmarkPick measures a pick together with its end, without probes, by all cores at once.
func BenchmarkPick(b *testing.B) {
	for _, config := range []string{
		`{"probe": {"transport": "none"}}`,
		`{"probe": {"transport": "none"}, "health": "off"}`,
		`{"probe": {"transport": "none"}, "policy": "prequal", "health": "off"}`,
		`{"probe": {"transport": "none"}, "policy": "least_loaded", "health": "off"}`,
		`{"probe": {"transport": "none"}, "policy": "random", "health": "off"}`,
	} {
		b.Run(config, func(b *testing.B) {
			parsed, err := parseConfig([]byte(config))
			if err != nil {
				b.Fatal(err)
			}
			e, err := newEngine(parsed, newMetrics(noRecorder{}, "test:///servers"), true)
			if err != nil {
				b.Fatal(err)
			}
			defer e.close()
			var ready []*endpointPicker
			for range 16 {
				ready = append(ready, &endpointPicker{Picker: readyPicker{}, endpoint: &endpoint{}})
			}
			e.setReady(ready, nil)
			p := &picker{engine: e}
			info := balancer.PickInfo{FullMethodName: "/test/Call", Ctx: b.Context()}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					result, err := p.Pick(info)
					if err != nil {
						b.Error(err)
						return
					}
					result.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
				}
			})
		})
	}
}

// noRecorder records nothing.
type noRecorder struct{ estats.MetricsRecorder }

func (noRecorder) RecordInt64Count(*estats.Int64CountHandle, int64, ...string) {}

func (noRecorder) RecordInt64Gauge(*estats.Int64GaugeHandle, int64, ...string) {}

func (noRecorder) RecordFloat64Histo(*estats.Float64HistoHandle, float64, ...string) {}

// BenchmarkCall compares unary calls on loopback with those of round robin, probes included. Client
// and servers share the process, so its CPU time is that of both.
func BenchmarkCall(b *testing.B) {
	for _, config := range []string{
		`{"round_robin": {}}`,
		`{"slackwater": {"probe": {"transport": "none"}}}`,
		`{"slackwater": {}}`,
		`{"slackwater": {"probe": {"transport": "udp"}}}`,
	} {
		b.Run(config, func(b *testing.B) {
			var servers []*server
			for range 8 {
				s := serve(b, nil)
				servers = append(servers, s)
				serveDatagrams(b, s)
			}
			c := dial(b, `{}`, servers, grpc.WithDefaultServiceConfig(
				fmt.Sprintf(`{"loadBalancingConfig": [%s]}`, config)))
			if _, err := c.call(b.Context()); err != nil {
				b.Fatal(err)
			}
			started := cpuTime()
			b.ReportAllocs()
			b.ResetTimer()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.call(context.Background()); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			probes := int64(0)
			for _, s := range servers {
				probes += s.probes.Load()
			}
			b.ReportMetric(float64((cpuTime()-started).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(probes)/float64(b.N), "probes/op")
		})
	}
}

// serveDatagrams lets a server answer probes by UDP at the number of its port.
func serveDatagrams(t testing.TB, s *server) {
	t.Helper()
	conn, err := net.ListenPacket("udp", s.address)
	if err != nil {
		t.Skipf("the port of TCP is not free for UDP: %v", err)
	}
	responder := probe.Responder{Report: func([]byte) policy.LoadReport {
		s.probes.Add(1)
		return policy.LoadReport{RIF: uint32(s.rif.Load())}
	}}
	done := make(chan error, 1)
	go func() { done <- responder.Serve(t.Context(), conn) }()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
}
