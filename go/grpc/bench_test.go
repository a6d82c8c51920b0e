package slackwatergrpc

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"

	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// BenchmarkCall compares unary calls on loopback with those of round robin, probes included. Client and
// servers share the process, so its CPU time is that of both.
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
