package slackwatergrpc

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
)

// BenchmarkCall compares unary calls on loopback with those of round robin, probes included. Client and
// servers share the process, so its CPU time is that of both.
func BenchmarkCall(b *testing.B) {
	for _, config := range []string{
		`{"round_robin": {}}`,
		`{"slackwater": {"probe": {"transport": "none"}}}`,
		`{"slackwater": {}}`,
		`{"slackwater": {"prequal": {"probesPerSecondMax": 1000}}}`,
	} {
		b.Run(config, func(b *testing.B) {
			var servers []*server
			for range 8 {
				servers = append(servers, serve(b, nil))
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
