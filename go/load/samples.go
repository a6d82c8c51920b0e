package load

import (
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

const (
	// nearestInWindow is the most samples of the window in a median: those nearest in RIF.
	nearestInWindow = 9
	// nearestRemembered is the most remembered samples in a median, if the window has too few:
	// fewer, so that the RIF counts more.
	nearestRemembered = 5

	sampleCapacityMin = 2
	sampleCapacityMax = 4096

	// passedOverMax is how many old samples do not hide newer ones behind them. The ring is nearly
	// in order of time, but not quite: a goroutine may be delayed between reading the clock and
	// recording, or between taking a slot and filling it.
	passedOverMax = 8

	// vacant marks an empty place of a sorted list; it is farther than any sample.
	vacant = math.MaxUint64
)

// samples holds recent latencies, each with the RIF that its query met: a ring that any number of
// goroutines write and read without a lock. Each slot has a sequence number, which is odd while the
// slot is written. A reader that sees it change ignores the slot. A writer that finds a slot taken
// (the other writer would be a whole ring behind) drops its sample. No goroutine ever waits.
type samples struct {
	slots []sampleSlot // a power of two
	// How many samples were ever recorded; the next one goes into this slot.
	next atomic.Uint64

	windowNS      uint64
	windowMin     int
	rememberedMax int
	ageMaxNS      uint64
}

type sampleSlot struct {
	sequence     atomic.Uint32 // 0 if it was never written
	others       atomic.Uint32
	latencyNS    atomic.Uint64
	finishedAtNS atomic.Uint64
}

type sample struct {
	others       uint32
	latencyNS    uint64
	finishedAtNS uint64
}

func (s sample) ageNS(now policy.Instant) uint64 {
	return ints.Sub(uint64(now), s.finishedAtNS)
}

func (s *sampleSlot) write(sample sample) {
	sequence := s.sequence.Load()
	if sequence%2 == 1 || !s.sequence.CompareAndSwap(sequence, sequence+1) {
		return
	}
	s.others.Store(sample.others)
	s.latencyNS.Store(sample.latencyNS)
	s.finishedAtNS.Store(sample.finishedAtNS)
	// Zero means "never written", so the number skips it when it wraps.
	s.sequence.Store(max(sequence+2, 2))
}

func (s *sampleSlot) read() (sample, bool) {
	before := s.sequence.Load()
	if before == 0 || before%2 == 1 {
		return sample{}, false
	}
	read := sample{s.others.Load(), s.latencyNS.Load(), s.finishedAtNS.Load()}
	return read, s.sequence.Load() == before
}

func (s *samples) init(config *TrackerConfig) {
	capacity := min(max(config.SampleCapacity, sampleCapacityMin), sampleCapacityMax)
	s.slots = make([]sampleSlot, 1<<bits.Len(uint(capacity-1)))
	s.windowNS = spanNS(config.SampleWindow)
	s.windowMin = max(config.WindowSamplesMin, 1)
	s.rememberedMax = config.RememberedSamplesMax
	s.ageMaxNS = spanNS(config.SampleAgeMax)
}

func (s *samples) slot(index uint64) *sampleSlot { return &s.slots[index&uint64(len(s.slots)-1)] }

func (s *samples) record(now policy.Instant, others uint32, latencyNS uint64) {
	s.slot(s.next.Add(1) - 1).write(sample{others, latencyNS, uint64(now)})
}

// recorded returns how many samples were ever recorded.
func (s *samples) recorded() uint64 { return s.next.Load() }

// medianNear returns the median of recent latencies at or near this RIF: element ⌈k/2⌉ of the k
// samples that count. It reports false if none does.
//
// Samples within the window count alone if there are enough: they show the present. Otherwise the
// newest ones count, and over that longer time the samples at this RIF are the best predictors of
// the next query.
func (s *samples) medianNear(now policy.Instant, rif uint32) (uint64, bool) {
	return s.median(now, rif, s.rememberedMax, s.ageMaxNS)
}

// lastKnown is medianNear over samples of any age and at least one of them: what was usual when
// latency was last known. It reports false only if it never was.
func (s *samples) lastKnown(now policy.Instant, rif uint32) (uint64, bool) {
	return s.median(now, rif, max(s.rememberedMax, 1), math.MaxUint64)
}

func (s *samples) median(now policy.Instant, rif uint32, rememberedMax int, ageMaxNS uint64) (uint64, bool) {
	young := func(it sample) bool { return it.ageNS(now) < ageMaxNS }
	recent := func(it sample) bool { return young(it) && it.ageNS(now) <= s.windowNS }
	next := s.next.Load()
	inWindow := 0
	s.lookBack(next, recent, func(uint64, sample) bool {
		inWindow++
		return inWindow < s.windowMin
	})
	var places [nearestInWindow]uint64
	nearest := places[:nearestRemembered]
	switch {
	case inWindow >= s.windowMin:
		nearest = places[:]
		s.nearest(nearest, next, rif, math.MaxInt, recent)
	case rememberedMax > 0:
		s.nearest(nearest, next, rif, rememberedMax, young)
	default:
		return 0, false
	}
	return s.medianOf(next, nearest, young)
}

// nearest fills places with the samples nearest in RIF among the newestMax newest wanted ones,
// nearest first, and of equally near ones the newer first. Each is packed as its distance in RIF
// and, below that, how far back it is, which is unique.
func (s *samples) nearest(places []uint64, next uint64, rif uint32, newestMax int, wanted func(sample) bool) {
	clear64(places)
	last := len(places) - 1
	s.lookBack(next, wanted, func(back uint64, it sample) bool {
		insert(places, absDiff(uint64(it.others), uint64(rif))<<32|back)
		newestMax--
		settled := places[last]>>32 == 0 // no older one can be nearer
		return newestMax > 0 && !settled
	})
}

// medianOf returns the median latency of packed samples.
func (s *samples) medianOf(next uint64, nearest []uint64, young func(sample) bool) (uint64, bool) {
	var places [nearestInWindow]uint64
	byLatency := places[:len(nearest)]
	clear64(byLatency)
	count := 0
	for _, packed := range nearest {
		if packed == vacant {
			break
		}
		// One that was overwritten since counts with its new value, if that is not too old.
		if it, ok := s.slot(next - packed&math.MaxUint32).read(); ok && young(it) {
			insert(byLatency, it.latencyNS)
			count++
		}
	}
	if count == 0 {
		return 0, false
	}
	return byLatency[(count+1)/2-1], true
}

// between passes to show the RIF and the latency of each sample that was recorded between the
// counts from and to and finished after then, newest first, as far back as the ring goes.
func (s *samples) between(from, to uint64, then policy.Instant, show func(others uint32, latencyNS uint64)) {
	count := to - from
	if count == 0 {
		return
	}
	later := func(it sample) bool { return it.finishedAtNS > uint64(then) }
	s.lookBack(to, later, func(back uint64, it sample) bool {
		if back <= count {
			show(it.others, it.latencyNS)
		}
		return back < count
	})
}

// lookBack passes the wanted samples to show, newest first, with how far back each is, until show
// returns false.
func (s *samples) lookBack(next uint64, wanted func(sample) bool, show func(back uint64, it sample) bool) {
	passedOver := 0
	for back := uint64(1); back <= uint64(len(s.slots)); back++ {
		it, ok := s.slot(next - back).read()
		if !ok {
			continue
		}
		if wanted(it) {
			if !show(back, it) {
				return
			}
		} else if passedOver++; passedOver > passedOverMax {
			return
		}
	}
}

func clear64(places []uint64) {
	for i := range places {
		places[i] = vacant
	}
}

// insert inserts a number into a sorted list; the greatest falls out.
func insert(sorted []uint64, number uint64) {
	for i, held := range sorted {
		sorted[i], number = min(number, held), max(number, held)
	}
}
