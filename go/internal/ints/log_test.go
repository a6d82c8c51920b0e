package ints

import (
	"math"
	"testing"
)

func TestLog2HasSixDigits(t *testing.T) {
	for value, millionths := range map[uint64]uint64{
		0: 0, 1: 0, 2: 1_000_000, 3: 1_584_962, 10: 3_321_928,
		1_000_003: 19_931_572, 1 << 40: 40_000_000, math.MaxUint64: 63_999_999,
	} {
		if found := Log2(value) * 1_000_000 >> LogPlaces; found != millionths {
			t.Errorf("Log2(%d) = %d millionths, not %d", value, found, millionths)
		}
	}
}

func TestMinusLog2IsAtMostAFiveHundredthTooHigh(t *testing.T) {
	last := uint64(math.MaxUint64)
	for _, fraction := range []uint64{
		1, 1 << 20, 1 << 62, 1 << 63, 3 << 62, 1<<64 - 1<<55, 1<<64 - 1<<44,
	} {
		found, exact := MinusLog2(fraction), 64-math.Log2(float64(fraction))
		if excess := float64(found)/(1<<56)/exact - 1; excess < -1e-6 || excess > 0.002 {
			t.Errorf("MinusLog2(%#x) = %d exceeds %g by the factor %g", fraction, found, exact, excess)
		}
		if found >= last {
			t.Errorf("MinusLog2(%#x) = %d is no less than that of a smaller fraction", fraction, found)
		}
		last = found
	}
	if zero := MinusLog2(0); zero != 64<<56 {
		t.Errorf("MinusLog2(0) = %d", zero)
	}
}
