package httplb

import (
	"context"
	"net/http"
	"testing"
)

// BenchmarkRoundTrip is what balancing adds to a request: the base answers at once.
func BenchmarkRoundTrip(b *testing.B) {
	base := respond(200, nil, http.NoBody, 0)
	run := func(b *testing.B, transport http.RoundTripper) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			request := newRequest(b, context.Background(), nil)
			for pb.Next() {
				response, err := transport.RoundTrip(request)
				if err != nil {
					b.Error(err)
					return
				}
				_ = response.Body.Close()
			}
		})
	}
	b.Run("base", func(b *testing.B) { run(b, base) })
	for name, option := range map[string]Option{"no_probes": WithoutProbes(), "udp": func(o *options) { o.probes = probesUDP }} {
		b.Run(name, func(b *testing.B) {
			replicas := make([]Replica, 16)
			for i := range replicas {
				replicas[i] = Replica{URL: "http://10.0.0." + string(rune('a'+i)), Probe: "127.0.0.1:9"}
			}
			run(b, newTransport(b, replicas, WithBase(base), option))
		})
	}
}
