package health

import "testing"

func TestEvidenceOfFailures(t *testing.T) {
	for _, c := range []struct {
		name        string
		own, others sample
		bits        uint64
	}{
		{"one of 20 beside 20", sample{20, 1}, sample{20, 0}, 1},
		{"half of 20 beside 20", sample{20, 10}, sample{20, 0}, 10},
		{"one of 20 beside 60", sample{20, 1}, sample{60, 0}, 2},
		{"11 of 20 beside 60", sample{20, 11}, sample{60, 0}, 22},
		{"one of 20 beside 300", sample{20, 1}, sample{300, 0}, 4},
		{"6 of 20 beside 300", sample{20, 6}, sample{300, 0}, 24},
		{"as often as the others", sample{20, 20}, sample{60, 60}, 0},
		{"less often", sample{20, 1}, sample{60, 60}, 0},
		{"no others", sample{20, 20}, sample{}, 0},
		{"no queries", sample{}, sample{60, 3}, 0},
		// 10 · log2(10/12 / (1/4)) + 2 · log2(2/12 / (3/4)) = 17.37 − 4.34
		{"some of the others fail", sample{20, 10}, sample{60, 2}, 13},
		{"half of all fail", sample{20, 10}, sample{60, 30}, 0},
		// 40,000 · log2((40/140) / (1/4)) + 100,000 · log2((100/140) / (3/4)) = 7,705.8 − 7,038.9
		{"many", sample{2_000_000, 40_000}, sample{6_000_000, 100_000}, 666},
	} {
		if found := evidenceBits(c.own, c.others); found != c.bits {
			t.Errorf("%s: %d bits, not %d", c.name, found, c.bits)
		}
	}
}
