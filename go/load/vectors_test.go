package load

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// vectorLine is a line of vectors/load; see the README there.
type vectorLine struct {
	Scenario string
	Settings struct {
		SampleWindow         uint64 `json:"sample_window"`
		WindowSamplesMin     uint64 `json:"window_samples_min"`
		RememberedSamplesMax uint64 `json:"remembered_samples_max"`
		SampleAgeMax         uint64 `json:"sample_age_max"`
		SampleCapacity       uint64 `json:"sample_capacity"`
	}
	Millicores uint32

	T   uint64
	Op  string
	Q   uint64
	End string

	RIF      uint32
	Latency  uint64
	RIFTime  uint64 `json:"rif_time"`
	Busy     uint64
	Capacity *uint32
	Cost     *uint64
	Source   string

	Reads, Quiet, Due bool

	Finished, Failed uint64
	CPU              json.RawMessage
	Errors           *uint32
	CPUShare         *uint32 `json:"cpu_share"`
	QueryRate        *uint32 `json:"query_rate"`
}

type vectorCPU struct {
	Used            uint64
	ThreadsUsed     *uint64 `json:"threads_used"`
	ThreadsWaited   uint64  `json:"threads_waited"`
	LimitMillicores uint32  `json:"limit_millicores"`
	QuotaPeriod     uint64  `json:"quota_period"`
}

// replay passes the lines of a file of vectors/load, or of the folder that SLACKWATER_VECTORS
// names, to play: one call for each scenario.
func replay(t *testing.T, file string, play func(t *testing.T, lines []vectorLine)) {
	t.Helper()
	folder := os.Getenv("SLACKWATER_VECTORS")
	if folder == "" {
		folder = filepath.Join("..", "..", "vectors")
	}
	opened, err := os.Open(filepath.Join(folder, "load", file))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var scenario []vectorLine
	scenarios := 0
	end := func() {
		if len(scenario) > 0 {
			scenarios++
			lines := scenario
			t.Run(lines[0].Scenario, func(t *testing.T) { play(t, lines) })
		}
		scenario = nil
	}
	lines := bufio.NewScanner(opened)
	for lines.Scan() {
		var line vectorLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if line.Scenario != "" {
			end()
		}
		scenario = append(scenario, line)
	}
	end()
	if err := lines.Err(); err != nil || scenarios == 0 {
		t.Fatalf("%d scenarios, %v", scenarios, err)
	}
}

// span reads nanoseconds; the longest time.Duration stands for longer ones.
func span(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

func optional[T any](value *T) policy.Optional[T] {
	if value == nil {
		return policy.Optional[T]{}
	}
	return policy.Some(*value)
}

func (l *vectorLine) config() TrackerConfig {
	count := func(n uint64) int { return int(min(n, math.MaxInt)) }
	return TrackerConfig{
		SampleWindow:         span(l.Settings.SampleWindow),
		WindowSamplesMin:     count(l.Settings.WindowSamplesMin),
		RememberedSamplesMax: count(l.Settings.RememberedSamplesMax),
		SampleAgeMax:         span(l.Settings.SampleAgeMax),
		SampleCapacity:       count(l.Settings.SampleCapacity),
	}
}

func (l *vectorLine) outcome() Outcome {
	for _, outcome := range []Outcome{Success, Failed, Cancelled} {
		if outcome.String() == l.End {
			return outcome
		}
	}
	panic("no outcome: " + l.End)
}

func (l *vectorLine) cpuTotals(t *testing.T) policy.Optional[CPUTotals] {
	if l.CPU == nil {
		return policy.Optional[CPUTotals]{}
	}
	var cpu vectorCPU
	if err := json.Unmarshal(l.CPU, &cpu); err != nil {
		t.Fatal(err)
	}
	totals := CPUTotals{
		Used: span(cpu.Used), LimitMillicores: cpu.LimitMillicores, QuotaPeriod: span(cpu.QuotaPeriod),
	}
	if cpu.ThreadsUsed != nil {
		totals.Threads = policy.Some(ThreadTotals{Used: span(*cpu.ThreadsUsed), Waited: span(cpu.ThreadsWaited)})
	}
	return policy.Some(totals)
}

func playTracker(t *testing.T, lines []vectorLine, hasCapacity bool) {
	tracker := NewTracker(lines[0].config())
	var estimator CapacityEstimator
	arrivals := map[uint64]Arrival{}
	for i, line := range lines[1:] {
		now := policy.Instant(line.T)
		arrival := arrivals[line.Q]
		switch line.Op {
		case "arrive":
			arrivals[line.Q] = tracker.Arrive(now)
		case "head":
			tracker.Head(now, &arrival, line.outcome())
			arrivals[line.Q] = arrival
		case "finish":
			tracker.Finish(now, arrival, line.outcome())
		case "withdraw":
			tracker.Withdraw(arrival)
		case "report":
			want := policy.LoadReport{
				RIF: line.RIF, Latency: span(line.Latency), CapacityMilliRIF: optional(line.Capacity),
			}
			if line.Cost != nil {
				want.Cost = policy.Some(span(*line.Cost))
			}
			got, source := tracker.Report(now), SourceNone
			if hasCapacity {
				source = estimator.Fill(&got)
			}
			if got != want || source != SourceNone && source.String() != line.Source {
				t.Fatalf("line %d: got %+v by %v, want %+v by %s", i+2, got, source, want, line.Source)
			}
			if rifTime, busy := tracker.RIFTime(now), tracker.BusyTime(now); rifTime != line.RIFTime || busy != line.Busy {
				t.Fatalf("line %d: got %d and %d", i+2, rifTime, busy)
			}
		case "look":
			if got := estimator.Look(now, tracker); got != (Look{Reads: line.Reads, IsQuiet: line.Quiet}) {
				t.Fatalf("line %d: got %+v", i+2, got)
			}
		case "reading":
			estimator.Read(now, tracker, line.Finished, line.cpuTotals(t))
		default:
			t.Fatalf("line %d: unknown operation %q", i+2, line.Op)
		}
	}
}

func TestTrackerMatchesTheVectors(t *testing.T) {
	replay(t, "tracker.jsonl", func(t *testing.T, lines []vectorLine) { playTracker(t, lines, false) })
}

func TestCapacityEstimatorMatchesTheVectors(t *testing.T) {
	replay(t, "capacity.jsonl", func(t *testing.T, lines []vectorLine) { playTracker(t, lines, true) })
}

func TestRatesMatchTheVectors(t *testing.T) {
	replay(t, "rates.jsonl", func(t *testing.T, lines []vectorLine) {
		rates := NewRates(lines[0].Millicores)
		for i, line := range lines[1:] {
			now := policy.Instant(line.T)
			totals := Totals{Finished: line.Finished, Failed: line.Failed}
			if line.CPU != nil {
				var used uint64
				if err := json.Unmarshal(line.CPU, &used); err != nil {
					t.Fatal(err)
				}
				totals.CPU = policy.Some(span(used))
			}
			if due := rates.Due(now); due != line.Due {
				t.Fatalf("line %d: due: %v", i+2, due)
			}
			rates.Read(now, totals)
			want := policy.LoadReport{
				ErrorMillionths: optional(line.Errors),
				CPUMillionths:   optional(line.CPUShare),
				QueryRateMillis: optional(line.QueryRate),
			}
			var got policy.LoadReport
			if rates.Fill(&got); got != want {
				t.Fatalf("line %d: got %+v, want %+v", i+2, got, want)
			}
		}
	})
}
