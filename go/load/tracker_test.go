package load

import (
	"slices"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

func TestASlotBeingWrittenIsNeitherReadNorWritten(t *testing.T) {
	config := DefaultTrackerConfig()
	config.SampleCapacity = 2
	var s samples
	s.init(&config)
	expect := func(what string, want uint64, known bool) {
		t.Helper()
		if got, ok := s.medianNear(100, 0); got != want || ok != known {
			t.Errorf("%s: %d, %v", what, got, ok)
		}
	}
	s.record(100, 0, 7)
	s.slots[0].sequence.Add(1)
	expect("being written", 0, false)
	s.record(100, 0, 8)
	s.record(100, 0, 9)
	expect("9 fell on the slot that was taken", 8, true)
	s.slots[0].sequence.Add(1)
	expect("untouched by the writer that gave up", 7, true)
}

func TestASequenceNumberSkipsZeroWhenItWraps(t *testing.T) {
	var slot sampleSlot
	slot.sequence.Store(^uint32(0) - 1)
	slot.write(sample{latencyNS: 7})
	if read, ok := slot.read(); !ok || read.latencyNS != 7 {
		t.Errorf("%+v, %v", read, ok)
	}
}

func TestCapacitiesOfTheRingAreClampedAndRoundedUp(t *testing.T) {
	for capacity, slots := range map[int]int{-1: 2, 0: 2, 2: 2, 3: 4, 256: 256, 257: 512, 4096: 4096, 4097: 4096} {
		config := TrackerConfig{SampleCapacity: capacity}
		if tracker := NewTracker(config); len(tracker.samples.slots) != slots {
			t.Errorf("%d: %d", capacity, len(tracker.samples.slots))
		}
	}
}

func TestAWaitLongerThanUsualIsReportedWhenSamplesAreOld(t *testing.T) {
	at := func(ms uint64) policy.Instant { return policy.Instant(ms * msNS) }
	tracker := NewTracker(DefaultTrackerConfig())
	tracker.Finish(at(5), tracker.Arrive(at(0)), Success)
	tracker.Arrive(at(10_000))
	for ms, want := range map[uint64]time.Duration{10_005: 0, 10_006: 6 * time.Millisecond} {
		if got := tracker.Report(at(ms)).Latency; got != want {
			t.Errorf("at %d ms: %v", ms, got)
		}
	}
	// Of a new replica nothing is usual.
	tracker = NewTracker(DefaultTrackerConfig())
	tracker.Arrive(at(10_000))
	for ms, want := range map[uint64]time.Duration{12_999: 0, 13_000: 3 * time.Second} {
		if got := tracker.Report(at(ms)).Latency; got != want {
			t.Errorf("new, at %d ms: %v", ms, got)
		}
	}
}

func TestRatiosSaturate(t *testing.T) {
	for whole, want := range map[uint64]uint32{1: ^uint32(0), 2: ^uint32(0), 1 << 33: 1 << 31, 3 << 62: 1} {
		if got := ratio(1<<63, 2, uint128{lo: whole}); got != policy.Some(want) {
			t.Errorf("%d: %+v", whole, got)
		}
	}
}

func TestSamplesBetweenTwoReadingsAreNewestFirst(t *testing.T) {
	config := TrackerConfig{SampleCapacity: 4}
	var s samples
	s.init(&config)
	expect := func(from uint64, then policy.Instant, want ...uint64) {
		t.Helper()
		var got []uint64
		s.between(from, s.recorded(), then, func(_ uint32, latencyNS uint64) { got = append(got, latencyNS) })
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	expect(0, 0)
	for latency := range uint64(3) {
		s.record(policy.Instant(100+latency), 0, latency+1)
	}
	expect(0, 0, 3, 2, 1)
	expect(1, 0, 3, 2)
	expect(1, 101, 3)
	expect(3, 0)
	s.slots[1].sequence.Add(1)
	expect(1, 0, 3) // no other in place of one being written
	s.slots[1].sequence.Add(1)
	s.record(103, 0, 4)
	s.record(104, 0, 5)
	expect(0, 0, 5, 4, 3, 2) // as far as the ring goes
}

func TestTheWindowIncludesItsEdge(t *testing.T) {
	for now, want := range map[policy.Instant]uint64{20: 7, 21: 3} {
		config := TrackerConfig{SampleWindow: 20, WindowSamplesMin: 2, RememberedSamplesMax: 1, SampleAgeMax: 99, SampleCapacity: 8}
		var s samples
		s.init(&config)
		s.record(0, 0, 9)
		s.record(0, 0, 7)
		s.record(now, 5, 3) // the one that is remembered
		if got, ok := s.medianNear(now, 0); !ok || got != want {
			t.Errorf("%d: %d, %v", now, got, ok)
		}
	}
}

func TestAReadingWaitsWhileTheReplicaIsQuiet(t *testing.T) {
	tracker := NewTracker(DefaultTrackerConfig())
	var e CapacityEstimator
	now, ended := policy.Instant(7), uint64(0)
	query := func(took time.Duration) {
		arrival := tracker.Arrive(now)
		now = now.Add(took)
		tracker.Finish(now, arrival, Success)
		ended++
	}
	look := func() Look {
		look := e.Look(now, tracker)
		if look.Reads {
			e.Read(now, tracker, ended, policy.Optional[CPUTotals]{})
		}
		return look
	}
	if first := look(); first != (Look{Reads: true}) {
		t.Fatalf("the first: %+v", first)
	}
	for range settledQueries {
		query(CapacityStep)
		if !look().Reads {
			t.Fatal("little is known yet")
		}
	}
	for range quietEnds - 1 {
		query(0)
	}
	now = now.Add(CapacityStep)
	if got := look(); got != (Look{IsQuiet: true}) {
		t.Errorf("127 have ended: %+v", got)
	}
	query(0)
	if got := look(); got != (Look{Reads: true}) {
		t.Errorf("128 have ended: %+v", got)
	}
	// Something in flight for a tenth of the time, or for less.
	for took, reads := range map[time.Duration]bool{CapacityStep / 10: true, CapacityStep/10 - 1: false} {
		e.last.at, e.last.takenAt = now, now
		e.last.busyNS, e.last.recorded = tracker.BusyTime(now), tracker.samples.recorded()
		query(took)
		now = now.Add(CapacityStep - took)
		if got := look(); got.Reads != reads || got.IsQuiet == reads {
			t.Errorf("%v: %+v", took, got)
		}
	}
	// Idle time ends with a second since the last reading.
	now = now.Add(CapacityStep)
	e.Read(now, tracker, ended, policy.Optional[CPUTotals]{})
	for step := 1; step <= 20; step++ {
		now = now.Add(CapacityStep)
		if got := look(); got != (Look{Reads: step == 20, IsQuiet: true}) {
			t.Errorf("step %d: %+v", step, got)
		}
	}
}
