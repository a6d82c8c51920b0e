package probepb

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slackwater/slackwater/go/policy"
)

func full() policy.LoadReport {
	return policy.LoadReport{
		RIF:              3,
		Latency:          12_500 * time.Microsecond,
		LoadScale:        102,
		Draining:         true,
		Incarnation:      policy.Some[uint64](0),
		ErrorMillionths:  policy.Some[uint32](20_000),
		CPUMillionths:    policy.Some[uint32](1_500_000),
		QueryRateMillis:  policy.Some[uint32](math.MaxUint32),
		CapacityMilliRIF: policy.Some[uint32](4500),
		Cost:             policy.Some(2 * time.Microsecond),
	}
}

func TestReportSurvivesTheWire(t *testing.T) {
	for name, want := range map[string]policy.LoadReport{
		"full":  full(),
		"empty": {},
		"zeros": {
			Incarnation:      policy.Some[uint64](0),
			ErrorMillionths:  policy.Some[uint32](0),
			CPUMillionths:    policy.Some[uint32](0),
			QueryRateMillis:  policy.Some[uint32](0),
			CapacityMilliRIF: policy.Some[uint32](0),
			Cost:             policy.Some[time.Duration](0),
		},
		"largest": {RIF: math.MaxUint32, Latency: math.MaxInt64, LoadScale: math.MaxUint16,
			Incarnation: policy.Some[uint64](math.MaxUint64)},
	} {
		t.Run(name, func(t *testing.T) {
			bytes, err := proto.Marshal(NewLoadReport(want))
			if err != nil {
				t.Fatal(err)
			}
			var read LoadReport
			if err := proto.Unmarshal(bytes, &read); err != nil {
				t.Fatal(err)
			}
			if got := read.AsLoadReport(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestUnknownIsAbsent(t *testing.T) {
	for name, report := range map[string]policy.LoadReport{
		"zero":     {},
		"true":     {LoadScale: 1024},
		"negative": {Latency: -1, Cost: policy.Some(time.Duration(-1))},
	} {
		if bytes, err := proto.Marshal(NewLoadReport(report)); err != nil || len(bytes) != 0 {
			t.Errorf("%s: sent as %x (%v), want nothing", name, bytes, err)
		}
	}
}

func TestHostileReportsAreClamped(t *testing.T) {
	hostile := &LoadReport{
		Rif:       math.MaxUint32,
		LatencyNs: proto.Uint64(math.MaxUint64),
		LoadScale: proto.Uint32(math.MaxUint32),
		CostNs:    proto.Uint64(math.MaxInt64 + 1),
	}
	want := policy.LoadReport{RIF: math.MaxUint32, Latency: math.MaxInt64, LoadScale: math.MaxUint16,
		Cost: policy.Some[time.Duration](math.MaxInt64)}
	if got := hostile.AsLoadReport(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// 65,536 in 16 bits would be 0, which is the true load.
	for sent, want := range map[uint32]uint16{0: 1, 1: 1, 1024: 1024, 65_535: 65_535, 65_536: 65_535} {
		if got := (&LoadReport{LoadScale: &sent}).AsLoadReport().LoadScale; got != want {
			t.Errorf("load scale %d was read as %d, want %d", sent, got, want)
		}
	}
	if got := (*LoadReport)(nil).AsLoadReport(); got != (policy.LoadReport{}) {
		t.Errorf("nil was read as %+v", got)
	}
}

func TestCheckHint(t *testing.T) {
	if err := CheckHint(make([]byte, HintBytesMax)); err != nil {
		t.Errorf("longest hint: %v", err)
	}
	err := CheckHint(make([]byte, HintBytesMax+1))
	if err == nil || !strings.Contains(err.Error(), "257 bytes") {
		t.Errorf("too long a hint: %v", err)
	}
}

func TestNewLoadReportAllocatesOnce(t *testing.T) {
	report := full()
	var sink *LoadReport
	if allocations := testing.AllocsPerRun(100, func() { sink = NewLoadReport(report) }); allocations != 1 {
		t.Errorf("%v allocations, want 1", allocations)
	}
	_ = sink
}

func FuzzAsLoadReport(f *testing.F) {
	bytes, _ := proto.Marshal(NewLoadReport(full()))
	f.Add(bytes)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var read LoadReport
		if proto.Unmarshal(bytes, &read) != nil {
			return
		}
		report := read.AsLoadReport()
		if report.Latency < 0 || report.Cost.Value < 0 {
			t.Errorf("negative time in %+v", report)
		}
		if again := NewLoadReport(report).AsLoadReport(); report.LoadScale != unscaled && again != report {
			t.Errorf("%+v came back as %+v", report, again)
		}
	})
}

// A program with two files of one path does not start, and many have a probe.proto.
func TestPathOfTheFileIsUnique(t *testing.T) {
	if got := File_slackwater_probe_v1_probe_proto.Path(); got != "slackwater/probe/v1/probe.proto" {
		t.Errorf("path %q", got)
	}
}
