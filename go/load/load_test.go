package load

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

const ms = time.Millisecond

// serve plays queries that take this long, one after the other, with a report after each.
func serve(load *Load, queries int, took time.Duration) (report policy.LoadReport) {
	for range queries {
		query := load.Begin()
		time.Sleep(took) // in a bubble
		query.End(Success)
		report = load.Report(nil)
	}
	return report
}

func TestQueriesCountFromBeginningToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := New(Options{})
		stream, other := load.Begin(), load.Begin()
		time.Sleep(3 * ms)
		stream.Head(Success)
		stream.Head(Failed) // only the first counts
		if load.RIF() != 2 {
			t.Fatal("a stream counts until its last byte")
		}
		other.End(Cancelled)
		time.Sleep(500 * ms)
		if carried := stream.Carried(); carried.RIF != 0 {
			t.Fatalf("a query carries others only: %+v", carried)
		}
		stream.End(Success)
		stream.End(Failed)
		if load.RIF() != 0 {
			t.Fatal(load.RIF())
		}
		later := load.Begin()
		if carried := stream.Carried(); carried.RIF != 1 {
			t.Fatalf("one that has ended carries all: %+v", carried)
		}
		later.End(Cancelled)
		if counts := load.Counts(); counts != (Counts{Succeeded: 1, Cancelled: 2}) {
			t.Fatalf("%+v", counts)
		}
		if report := load.Report(nil); report.Latency != 3*ms {
			t.Fatalf("latency ends with the head: %+v", report)
		}
	})
}

func TestTheHeadDecidesTheEnd(t *testing.T) {
	load := New(Options{})
	for _, c := range []struct{ head, end, counted Outcome }{
		{Success, Success, Success}, {Success, Failed, Failed}, {Success, Cancelled, Cancelled},
		{Failed, Success, Failed}, {Cancelled, Success, Cancelled}, {Failed, Cancelled, Failed},
		{Outcome(9), Success, Cancelled},
	} {
		before := load.counts[c.counted].Load()
		query := load.Begin()
		query.Head(c.head)
		query.End(c.end)
		if load.counts[c.counted].Load() != before+1 {
			t.Errorf("%+v", c)
		}
	}
}

func TestAReportHasStateOfTheProcess(t *testing.T) {
	load := New(Options{HintScale: func(hint []byte) uint16 {
		if len(hint) == 0 {
			t.Error("it was called without a hint")
		}
		if string(hint) == "panic" {
			panic("hostile")
		}
		return uint16(len(hint))
	}})
	first, second := load.Report(nil), New(Options{}).Report(nil)
	if !first.Incarnation.Known || first.Incarnation == second.Incarnation || first.Draining {
		t.Fatalf("%+v, %+v", first, second)
	}
	load.Drain()
	if report := load.Report([]byte("user-17")); !report.Draining || !load.Draining() || report.LoadScale != 7 {
		t.Fatalf("%+v", report)
	}
	load.Undrain()
	if report := load.Report([]byte("panic")); report.Draining || report.LoadScale != 0 {
		t.Fatalf("%+v", report)
	}
	if report := second; report.LoadScale != 0 || report.CapacityMilliRIF.Known || report.Cost.Known || report.Latency != 0 {
		t.Fatalf("nothing is known yet: %+v", report)
	}
}

func TestCapacityIsLearnedFromLatencyUnlessTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := New(Options{})
		report := serve(load, 60, 10*ms)
		if capacity := report.CapacityMilliRIF.Value; capacity < 1000 || capacity > 1500 {
			t.Errorf("%+v", report)
		}
		if load.CapacitySource() != SourceLatency || report.Cost.Value/ms != 9 { // rounded down
			t.Errorf("%v by %v", report.Cost, load.CapacitySource())
		}
		off := New(Options{NoCapacity: true})
		report = serve(off, 60, 10*ms)
		if report.CapacityMilliRIF.Known || report.Cost.Known || off.CapacitySource() != SourceNone {
			t.Errorf("%+v", report)
		}
	})
}

func TestCapacityAndCostAreLearnedFromCPUTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Threads get half of the CPU that they want, and use 2 ms for each query.
		finished := 0
		load := New(Options{CPU: func() (CPUTotals, bool) {
			used := 2 * ms * time.Duration(finished)
			return CPUTotals{
				Used: used, Threads: policy.Some(ThreadTotals{Used: used, Waited: used}), LimitMillicores: 4000,
			}, true
		}})
		var report policy.LoadReport
		for range 100 {
			var queries []*Query
			for range 8 {
				queries = append(queries, load.Begin())
			}
			time.Sleep(10 * ms)
			for _, query := range queries {
				query.End(Success)
			}
			finished += 8
			report = load.Report(nil)
		}
		if capacity := report.CapacityMilliRIF.Value; capacity < 3700 || capacity > 4300 {
			t.Errorf("half of 8: %d", capacity)
		}
		var learned policy.LoadReport
		load.learned.estimator.Fill(&learned)
		if report.Cost != learned.Cost || report.CapacityMilliRIF != learned.CapacityMilliRIF {
			t.Errorf("%+v, but learned %+v", report, learned)
		}
		if report.Cost.Value.Truncate(time.Microsecond) != 2*ms || load.CapacitySource() != SourceWaits {
			t.Errorf("%v by %v", report.Cost, load.CapacitySource())
		}
	})
}

func TestCPUInUseIsAShareOfTheCurrentLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used time.Duration
		var limit uint32
		load := New(Options{CPU: func() (CPUTotals, bool) {
			return CPUTotals{Used: used, LimitMillicores: limit}, true
		}})
		for i, c := range []struct {
			more  time.Duration
			limit uint32
			want  policy.Optional[uint32]
		}{
			{500 * ms, 0, policy.Optional[uint32]{}},    // of what is not known
			{500 * ms, 2000, policy.Optional[uint32]{}}, // a first reading
			{500 * ms, 2000, policy.Some[uint32](250_000)},
			{600 * ms, 500, policy.Some[uint32](725_000)}, // a quarter of two cores, then 1.2 of half a core
			{0, 0, policy.Optional[uint32]{}},
		} {
			time.Sleep(time.Second)
			used, limit = used+c.more, c.limit
			if got := load.Report(nil).CPUMillionths; got != c.want {
				t.Errorf("second %d: %+v, want %+v", i, got, c.want)
			}
		}
	})
}

func TestAReportTakesOneReadingPerStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings := 0
		load := New(Options{CPU: func() (CPUTotals, bool) {
			readings++
			panic("not known")
		}})
		query := load.Begin()
		expect := func(what string, want int) {
			t.Helper()
			if readings != want {
				t.Fatalf("%s: %d readings, want %d", what, readings, want)
			}
		}
		load.Report(nil)
		load.Report(nil)
		expect("the first", 1)
		time.Sleep(CapacityStep - 1)
		load.Report(nil)
		expect("too early", 1)
		time.Sleep(time.Nanosecond)
		load.Report(nil)
		load.Report(nil)
		expect("due", 2)
		time.Sleep(2*CapacityStep - 1)
		query.Carried()
		expect("left to probes", 2)
		time.Sleep(time.Nanosecond)
		query.Carried()
		expect("no probe comes", 3)
	})
}

func TestRatesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := New(Options{})
		load.Report(nil)
		for i := range 10 {
			query := load.Begin()
			query.End(map[bool]Outcome{true: Failed, false: Success}[i < 2])
		}
		load.Begin().End(Cancelled) // does not show how busy it was
		time.Sleep(2 * time.Second)
		report := load.Report(nil)
		if report.QueryRateMillis != policy.Some[uint32](5000) || report.ErrorMillionths != policy.Some[uint32](200_000) {
			t.Fatalf("%+v", report)
		}
	})
}

func TestConcurrentQueriesLeaveNothingBehind(t *testing.T) {
	load := New(Options{CPU: ProcessCPU})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 2000 {
				query := load.Begin()
				if i%3 == 0 {
					query.Head(Outcome(i % 2))
				}
				if worker == 0 {
					load.Report([]byte("hint"))
				}
				query.Carried()
				query.End(Outcome((i + worker) % 3))
			}
		})
	}
	group.Wait()
	counts := load.Counts()
	if load.RIF() != 0 || counts.Succeeded+counts.Failed+counts.Cancelled != 16_000 {
		t.Fatalf("%d in flight, %+v", load.RIF(), counts)
	}
	if waiting := load.tracker.waiting.Load(); waiting != 0 {
		t.Fatalf("%d wait for their head", waiting)
	}
}

func TestProcessCPUAdvances(t *testing.T) {
	first, ok := ProcessCPU()
	if !ok {
		t.Skip("this system does not tell")
	}
	if first.Used <= 0 || first.LimitMillicores < 1000 || first.Threads.Known {
		t.Fatalf("%+v", first)
	}
}

func BenchmarkQuery(b *testing.B) {
	load := New(Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			query := load.Begin()
			query.Head(Success)
			query.End(Success)
		}
	})
}

func BenchmarkReport(b *testing.B) {
	load := New(Options{})
	for range 256 {
		load.Begin().End(Success)
	}
	b.ReportAllocs()
	for b.Loop() {
		load.Report(nil)
	}
}
