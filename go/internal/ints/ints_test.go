package ints

import (
	"math"
	"testing"
)

func TestArithmeticSaturates(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range []struct {
		name        string
		found, want uint64
	}{
		{"Add", Add[uint64](most, 1), most},
		{"Add at the bound", Add[uint64](most-1, 1), most},
		{"Add of 32 bits", uint64(Add[uint32](math.MaxUint32, 7)), math.MaxUint32},
		{"Sub", Sub[uint64](1, 2), 0},
		{"Mul", Mul(1<<32, 1<<32), most},
		{"Mul at the bound", Mul(1<<32, 1<<31), 1 << 63},
		{"MulDiv", MulDiv(most, most, most), most},
		{"MulDiv beyond 64 bits", MulDiv(1<<32, 1<<32, 1), most},
		{"MulDiv far beyond 64 bits", MulDiv(most, most, 3), most},
		{"MulDiv rounds down", MulDiv(7, 5, 6), 5},
		{"Towards more", Towards(10, 40, 1, 3), 20},
		{"Towards less", Towards(40, 10, 1, 3), 30},
		{"Towards all the way", Towards(10, 40, 4, 3), 40},
		{"Sqrt", Sqrt(99), 9},
		{"Sqrt of a square", Sqrt(100), 10},
		{"Sqrt of the largest", Sqrt(most), math.MaxUint32},
	} {
		if c.found != c.want {
			t.Errorf("%s: %d, not %d", c.name, c.found, c.want)
		}
	}
}
