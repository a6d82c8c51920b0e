package probe

import (
	"net/netip"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

var benchReport = policy.LoadReport{
	RIF: 3, Latency: 80 * time.Millisecond, Incarnation: policy.Some[uint64](7),
	CapacityMilliRIF: policy.Some[uint32](4500), Cost: policy.Some(2 * time.Millisecond),
}

func benchmarkKeys(b *testing.B, run func(b *testing.B, key *Key)) {
	b.Run("unkeyed", func(b *testing.B) { run(b, nil) })
	b.Run("keyed", func(b *testing.B) { run(b, testKey(b, 1)) })
}

func BenchmarkAppendRequest(b *testing.B) {
	benchmarkKeys(b, func(b *testing.B, key *Key) {
		var buffer [DatagramBytesMax]byte
		b.ReportAllocs()
		for b.Loop() {
			_, _ = AppendRequest(buffer[:0], Request{Nonce: 7}, key)
		}
	})
}

func BenchmarkParseReply(b *testing.B) {
	benchmarkKeys(b, func(b *testing.B, key *Key) {
		datagram := AppendReply(nil, &Reply{Nonce: 7, Report: benchReport}, key)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseReply(datagram, key); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	benchmarkKeys(b, func(b *testing.B, key *Key) {
		responder := &Responder{Key: key, Report: func([]byte) policy.LoadReport { return benchReport }}
		request, _ := AppendRequest(nil, Request{Nonce: 7}, key)
		var buffer [DatagramBytesMax]byte
		b.ReportAllocs()
		for b.Loop() {
			if len(responder.Answer(buffer[:0], netip.AddrPort{}, request)) == 0 {
				b.Fatal("no answer")
			}
		}
	})
}

// BenchmarkRoundTrip is a probe over the loopback, with the work of both sides.
func BenchmarkRoundTrip(b *testing.B) {
	addr := serve(b, &Responder{Report: func([]byte) policy.LoadReport { return benchReport }})
	done := make(chan struct{}, 1)
	client, err := NewClient(ClientOptions[policy.ProbeID]{
		Network: "udp4", Answered: func(*Answer[policy.ProbeID]) { done <- struct{}{} },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := client.Send(addr, 1, nil, time.Minute); err != nil {
			b.Fatal(err)
		}
		<-done
	}
}

func TestTheDatagramPathAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops memory of pools")
	}
	for name, key := range map[string]*Key{"unkeyed": nil, "keyed": testKey(t, 1)} {
		responder := &Responder{Key: key, Report: func([]byte) policy.LoadReport { return benchReport }}
		var request, reply [DatagramBytesMax]byte
		allocations := testing.AllocsPerRun(1000, func() {
			asked, _ := AppendRequest(request[:0], Request{Nonce: 7}, key)
			answer := responder.Answer(reply[:0], netip.AddrPort{}, asked)
			if _, err := ParseReply(answer, key); err != nil {
				t.Error(err)
			}
		})
		if allocations > 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}
