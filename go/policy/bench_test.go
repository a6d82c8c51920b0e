package policy

import (
	"fmt"
	"sync"
	"testing"
)

// BenchmarkPick measures a query with all that belongs to it: the choice, its probes with their
// answers, and its end.
func BenchmarkPick(b *testing.B) {
	for _, name := range Names() {
		for _, replicas := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, replicas), func(b *testing.B) {
				d := newDriver(b, name, DefaultSettings(), replicas)
				d.answer = equalLoad
				for range 4 * replicas {
					d.serve(b)
				}
				b.ReportAllocs()
				for b.Loop() {
					d.serve(b)
				}
			})
		}
	}
}

// BenchmarkChoose measures the choice and the end of a query alone, as it is on a query's path.
func BenchmarkChoose(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			d := newDriver(b, name, DefaultSettings(), 100)
			d.answer = equalLoad
			for range 400 {
				d.serve(b)
			}
			b.ReportAllocs()
			for b.Loop() {
				d.policy.HandleDone(d.now, d.pick(b, Query{}, nil).Ticket, OutcomeSuccess)
			}
		})
	}
}

// BenchmarkParallel measures picks of several goroutines behind one mutex, as adapters make them.
func BenchmarkParallel(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			d := newDriver(b, name, DefaultSettings(), 100)
			d.answer = equalLoad
			var mutex sync.Mutex
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					mutex.Lock()
					pick := d.pick(b, Query{}, nil)
					d.probe()
					d.now += ms
					mutex.Unlock()
					mutex.Lock()
					d.policy.HandleDone(d.now, pick.Ticket, OutcomeSuccess)
					mutex.Unlock()
				}
			})
		})
	}
}
