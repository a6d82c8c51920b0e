package policy

import (
	"testing"
	"time"
)

// TestNothingIsAllocatedInSteadyState checks a query with its probes, their answers and its end. A
// synchronous round is allocated, and nothing else.
func TestNothingIsAllocatedInSteadyState(t *testing.T) {
	for _, name := range Names() {
		for _, replicas := range []int{2, 40} {
			d := newDriver(t, name, DefaultSettings(), replicas)
			d.answer = equalLoad
			for range 400 {
				d.serve(t)
			}
			most := 0.0
			if name == "prequal_sync" {
				most = 1
			}
			if found := testing.AllocsPerRun(1_000, func() { d.serve(t) }); found > most {
				t.Errorf("%s with %d replicas: %v allocations", name, replicas, found)
			}
		}
	}
}

// TestNothingIsAllocatedWhileFewReportsCome checks a choice that also compares further reports, and
// draws among equals.
func TestNothingIsAllocatedWhileFewReportsCome(t *testing.T) {
	settings := DefaultSettings()
	settings.Prequal.ProbeRate = One
	d := newDriver(t, Default, settings, 40)
	d.answer = func(_ int, report *LoadReport) { report.RIF, report.Latency = 1, time.Millisecond }
	for range 400 {
		d.serve(t)
	}
	if few := d.policy.(*probed).kept.(*latest).further.areNeeded(); !few {
		t.Error("enough reports come")
	}
	if found := testing.AllocsPerRun(1_000, func() { d.serve(t) }); found > 0 {
		t.Errorf("%v allocations", found)
	}
}

func TestExplanationsAllocateNothing(t *testing.T) {
	for _, name := range Names() {
		d := newDriver(t, name, DefaultSettings(), 40)
		d.answer = equalLoad
		for range 400 {
			d.serve(t)
		}
		explanation := NewExplanation()
		most := 0.0
		if name == "prequal_sync" {
			most = 1
		}
		found := testing.AllocsPerRun(1_000, func() {
			d.policy.HandleDone(d.now, d.pick(t, Query{}, explanation).Ticket, OutcomeSuccess)
		})
		if found > most {
			t.Errorf("%s: %v allocations", name, found)
		}
	}
}
