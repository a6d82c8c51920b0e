package policy

import (
	"math"
	"testing"
	"time"
)

func TestRecentQueriesFadeInFourSeconds(t *testing.T) {
	var recent recentQueries
	recent.read(1_000*ms, 70, math.MaxUint64-4)
	if recent.spanNS != 0 || recent.queries != 0 {
		t.Errorf("after one reading: %+v", recent)
	}
	// A reading that comes too early changes nothing.
	recent.read(1_100*ms-1, 75, 0)
	if recent.spanNS != 0 || recent.queriesRead != 70 {
		t.Errorf("after an early reading: %+v", recent)
	}
	check := func(queries, inFlightNS uint64, span time.Duration) {
		t.Helper()
		if recent.queries != queries || recent.inFlightNS != inFlightNS || recent.spanNS != uint64(span) {
			t.Errorf("%+v", recent)
		}
	}
	// The integral wraps.
	recent.read(1_100*ms, 78, 795)
	check(8*fine, 800, 100*time.Millisecond)
	// One second is a quarter of the time that counts.
	recent.read(2_100*ms, 80, 1_000)
	check(8*fine*3/4+2*fine, 600+205, 1_075*time.Millisecond)
	// After four seconds nothing older counts.
	recent.read(6_100*ms, 81, 1_001)
	check(fine, 1, 4*time.Second)
}

func TestQueriesOfOthersAreAllButTheOwn(t *testing.T) {
	recent := recentQueries{queries: 8 * fine, spanNS: uint64(2 * time.Second)}
	for allRateMillis, expected := range map[uint64]uint64{
		20_000:         4 * fine,
		4_000:          0,
		3_000:          0,
		math.MaxUint64: (math.MaxUint64 - 8*fine) / 8,
		8_000:          fine,
	} {
		if found, known := recent.ofOthers(allRateMillis); !known || found != expected {
			t.Errorf("of %d: %d, not %d", allRateMillis, found, expected)
		}
	}
	recent.queries = 0
	if _, known := recent.ofOthers(20_000); known {
		t.Error("none are known")
	}
}

func TestWithdrawnQueryTakesNothingFromTheOthers(t *testing.T) {
	var recent recentQueries
	recent.read(0, 0, 0)
	recent.read(200*ms, 1, uint64(200*ms))
	recent.read(300*ms, 2, uint64(50*ms))
	if recent.inFlightNS != uint64(195*ms) {
		t.Errorf("%+v", recent)
	}
}
