package policy

import (
	"math"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
)

func TestAccumulatedTotalIsExactAtEveryStep(t *testing.T) {
	for _, rate := range []Millionths{0, 1, 250_000, 333_333, 500_000, 999_999, One, 1_410_000, 3 * One} {
		var owed accumulator
		total := uint64(0)
		for steps := uint64(1); steps <= 10_000; steps++ {
			total += uint64(owed.step(rate))
			if expected := steps * uint64(rate) / uint64(One); total != expected {
				t.Fatalf("rate %v after %d steps: %d, expected %d", rate, steps, total, expected)
			}
		}
	}
}

func TestNearestRankRoundsUp(t *testing.T) {
	for _, of := range []struct {
		quantile       Millionths
		count, atIndex int
	}{
		{840_896, 128, 107},
		{500_000, 4, 1},
		{500_001, 4, 2},
		{999_000, 128, 127},
		{0, 5, 0},
		{1, 5, 0},
		{One, 5, 4},
	} {
		if found := of.quantile.nearestRank(of.count); found != of.atIndex {
			t.Errorf("%v of %d: %d, expected %d", of.quantile, of.count, found, of.atIndex)
		}
	}
}

func TestMillionthsAreWrittenInDecimal(t *testing.T) {
	for text, of := range map[string]Millionths{
		"3": 3 * One, "1.41": 1_410_000, "0.000001": 1, "0.840896": 840_896, "0": 0, "10.05": 10_050_000,
	} {
		if found := of.String(); found != text {
			t.Errorf("%d is %q, expected %q", uint32(of), found, text)
		}
	}
}

func TestProductsHave128Bits(t *testing.T) {
	const most = math.MaxUint64
	for _, of := range []struct{ a, b, c, expected uint64 }{
		{7, 3, 2, 10},
		{7, 3, 0, 21},
		{most, 1, 1, most},
		{most, 3, 4, most/4*3 + 2},
		{1 << 32, 1 << 32, 1 << 10, 1 << 54},
		{most, 2, 1, most},
		{most, most, 0, most},
	} {
		if found := ints.MulDiv(of.a, of.b, of.c); found != of.expected {
			t.Errorf("%d · %d / %d is %d, expected %d", of.a, of.b, of.c, found, of.expected)
		}
	}
	for _, of := range []struct {
		a, b     uint64
		shift    uint
		expected uint64
	}{
		{1 << 40, 1 << 40, 20, 1 << 60},
		{3, 5, 1, 7},
		{most, most, 20, most},
		{most, 1 << 20, 20, most},
	} {
		if found := mulShift(of.a, of.b, of.shift); found != of.expected {
			t.Errorf("%d · %d >> %d is %d, expected %d", of.a, of.b, of.shift, found, of.expected)
		}
	}
}

func TestValuesUpToTheEdgeOfTheBandAreTheMean(t *testing.T) {
	for value, expected := range map[uint64]uint64{84: 84, 85: 100, 115: 100, 116: 116} {
		if found := banded(value, 100, 150_000); found != expected {
			t.Errorf("%d counts as %d, expected %d", value, found, expected)
		}
	}
}

func TestTimesSaturate(t *testing.T) {
	late := Instant(math.MaxUint64 - 1)
	if found := late.Add(time.Second); found != math.MaxUint64 {
		t.Errorf("beyond the end is %d", found)
	}
	if found := late.Add(-time.Second); found != late {
		t.Errorf("a negative span moves to %d", found)
	}
	if found := Instant(0).Since(late); found != 0 {
		t.Errorf("before the beginning is %v", found)
	}
	if found := late.Since(0); found != math.MaxInt64 {
		t.Errorf("the longest span is %v", found)
	}
	for _, at := range []Instant{0, 1, 1 << 63, math.MaxUint64 - 1} {
		if found, known := maybe(at).get(); !known || found != at {
			t.Errorf("%d came back as %d, %v", at, found, known)
		}
	}
	if _, known := maybeInstant(0).get(); known {
		t.Error("the zero value is absent")
	}
}

func TestSplitMixGivesThePublishedSequence(t *testing.T) {
	// The first outputs for seed 1234567, as published with the reference implementation.
	draw := NewSplitMix64(1_234_567)
	for _, expected := range []uint64{
		6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
	} {
		if found := draw.Draw(); found != expected {
			t.Fatalf("drew %d, expected %d", found, expected)
		}
	}
}

// fixedDraw always returns the same draw, and counts.
type fixedDraw struct {
	draw  uint64
	count int
}

func (d *fixedDraw) Draw() uint64 {
	d.count++
	return d.draw
}

func TestBelowMapsTheEndsOfTheRange(t *testing.T) {
	const most = math.MaxUint64
	for _, of := range []struct {
		draw            uint64
		bound, expected uint32
	}{
		{0, 7, 0}, {most, 7, 6}, {most, 1, 0}, {most, 0, 0}, {most, math.MaxUint32, math.MaxUint32 - 1},
	} {
		draw := &fixedDraw{draw: of.draw}
		if found := Below(draw, of.bound); found != of.expected || draw.count != 1 {
			t.Errorf("%d below %d is %d after %d draws", of.draw, of.bound, found, draw.count)
		}
	}
}
