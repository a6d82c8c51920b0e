package health

import (
	"math"
	"testing"
)

func TestTimesSaturate(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range []struct {
		name        string
		found, want uint64
	}{
		{"since a later time", since(1, 2), 0},
		{"after the end", uint64(after(never, 1)), most},
	} {
		if c.found != c.want {
			t.Errorf("%s: %d, not %d", c.name, c.found, c.want)
		}
	}
}
