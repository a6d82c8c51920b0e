package health

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
		{"addSat", addSat[uint64](most, 1), most},
		{"addSat at the bound", addSat[uint64](most-1, 1), most},
		{"addSat of 32 bits", uint64(addSat[uint32](math.MaxUint32, 7)), math.MaxUint32},
		{"subSat", subSat[uint64](1, 2), 0},
		{"mulSat", mulSat(1<<32, 1<<32), most},
		{"mulSat at the bound", mulSat(1<<32, 1<<31), 1 << 63},
		{"mulDiv", mulDiv(most, most, most), most},
		{"mulDiv beyond 64 bits", mulDiv(1<<32, 1<<32, 1), most},
		{"mulDiv far beyond 64 bits", mulDiv(most, most, 3), most},
		{"mulDiv rounds down", mulDiv(7, 5, 6), 5},
		{"sqrt", sqrt(99), 9},
		{"sqrt of a square", sqrt(100), 10},
		{"sqrt of the largest", sqrt(most), math.MaxUint32},
		{"since a later time", since(1, 2), 0},
		{"after the end", uint64(after(never, 1)), most},
	} {
		if c.found != c.want {
			t.Errorf("%s: %d, not %d", c.name, c.found, c.want)
		}
	}
}
