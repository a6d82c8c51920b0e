package health

import (
	"math"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// windowBuckets is the number of buckets of a window, each for a part of its time.
const windowBuckets = 16

// tally counts how queries ended.
type tally struct {
	good uint32
	bad  uint32
	// badNS is the total time of the bad ones.
	badNS uint64
}

func (t *tally) count() uint32 { return ints.Add(t.good, t.bad) }

func (t *tally) add(other *tally) {
	t.good = ints.Add(t.good, other.good)
	t.bad = ints.Add(t.bad, other.bad)
	t.badNS = ints.Add(t.badNS, other.badNS)
}

// window counts how recent queries ended, in a ring of buckets. It heals with time: results older
// than the window are gone, with or without newer ones. Where there is much data, only the newest
// decides, so that a change is found sooner.
type window struct {
	buckets [windowBuckets]tally
	// newest is the number of the newest bucket, counted from time zero.
	newest uint64
}

func (w *window) bucket(number uint64) *tally { return &w.buckets[number%windowBuckets] }

// at returns the bucket with this number, or the newest if that is later.
func (w *window) at(number uint64) *tally {
	oldest := ints.Sub(number, windowBuckets-1)
	for next := max(oldest, ints.Add(w.newest, 1)); next <= number; next++ {
		*w.bucket(next) = tally{}
	}
	w.newest = max(w.newest, number)
	return w.bucket(w.newest)
}

// takeBack takes back one that was counted as good in the bucket with this number.
func (w *window) takeBack(number uint64) {
	if number <= w.newest && w.newest-number < windowBuckets {
		bucket := w.bucket(number)
		bucket.good = ints.Sub(bucket.good, 1)
	}
}

// since returns the sum of the buckets from the one with this number on.
func (w *window) since(number uint64) tally {
	return w.recent(ints.Add(number, windowBuckets-1), math.MaxUint32)
}

// recent returns the sum of the newest buckets that hold enough queries, or of all of the window
// that ends with the bucket with this number.
func (w *window) recent(number uint64, enough uint32) tally {
	// The ring holds nothing that is older.
	end := max(ints.Sub(number, windowBuckets-1), ints.Sub(w.newest+1, windowBuckets))
	var sum tally
	for bucket := w.newest; bucket >= end; bucket-- {
		sum.add(w.bucket(bucket))
		if sum.count() >= enough || bucket == 0 {
			break
		}
	}
	return sum
}

// peaksNS is the length of the spans whose longest latencies are kept.
const peaksNS = 10_000_000_000

// peaks keeps the longest latency of this span and of the one before.
type peaks struct {
	longestNS [2]uint64
	span      uint64
}

func (p *peaks) note(latencyNS uint64) { p.longestNS[0] = max(p.longestNS[0], latencyNS) }

func (p *peaks) tick(now policy.Instant) {
	span := uint64(now) / peaksNS
	if span <= p.span {
		return
	}
	before := uint64(0)
	if span == p.span+1 {
		before = p.longestNS[0]
	}
	p.longestNS = [2]uint64{0, before}
	p.span = span
}

// longest returns the longest latency of both spans; 0 if there was none.
func (p *peaks) longest() uint64 { return max(p.longestNS[0], p.longestNS[1]) }
