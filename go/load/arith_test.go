package load

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/internal/ints"
	"github.com/slackwater/slackwater/go/policy"
)

// wide returns numbers of all sizes.
func wide(random *rand.Rand) uint64 { return random.Uint64() >> random.IntN(64) }

func bigOf(n uint128) *big.Int {
	whole := new(big.Int).SetUint64(n.hi)
	return whole.Or(whole.Lsh(whole, 64), new(big.Int).SetUint64(n.lo))
}

func TestArithmeticIsThatOfWiderIntegers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	most := new(big.Int).SetUint64(math.MaxUint64)
	for range 100_000 {
		a, b, c := wide(random), wide(random), wide(random)
		product := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		want := new(big.Int).Div(product, new(big.Int).SetUint64(max(c, 1)))
		if want.Cmp(most) > 0 {
			want = most
		}
		if got := ints.MulDiv(a, b, c); got != want.Uint64() {
			t.Fatalf("%d * %d / %d is %d, not %d", a, b, c, got, want)
		}
		root := new(big.Int).Sqrt(new(big.Int).SetUint64(a))
		if got := ints.Sqrt(a); got != root.Uint64() {
			t.Fatalf("the root of %d is %d, not %d", a, got, root)
		}
		n := uint128{a, b}
		if c > 0 {
			if got, want := bigOf(n.div(c)), new(big.Int).Div(bigOf(n), new(big.Int).SetUint64(c)); got.Cmp(want) != 0 {
				t.Fatalf("%v / %d is %d, not %d", n, c, got, want)
			}
		}
		if by := (uint128{max(c, 1), b ^ a}); true {
			if got, want := n.divWide(by), new(big.Int).Div(bigOf(n), bigOf(by)); got != want.Uint64() {
				t.Fatalf("%v / %v is %d, not %d", n, by, got, want)
			}
		}
		if got := n.lessOrEqual(uint128{b, a}); got != (bigOf(n).Cmp(bigOf(uint128{b, a})) <= 0) {
			t.Fatalf("%v <= %v is %v", n, uint128{b, a}, got)
		}
	}
	for _, n := range []uint64{0, 1, 1<<32 - 1, 1 << 32, math.MaxUint64 - 1, math.MaxUint64, math.MaxUint32 * math.MaxUint32, math.MaxUint32*math.MaxUint32 - 1} {
		if got, want := ints.Sqrt(n), new(big.Int).Sqrt(new(big.Int).SetUint64(n)).Uint64(); got != want {
			t.Errorf("the root of %d is %d, not %d", n, got, want)
		}
	}
	full := uint128{math.MaxUint64, math.MaxUint64}
	if full.saturatingAdd(uint128{0, 1}) != full {
		t.Error("a sum wraps")
	}
}

func TestSignedArithmeticSaturates(t *testing.T) {
	for _, c := range []struct{ a, b, sum int64 }{
		{1, -3, -2}, {math.MaxInt64, 1, math.MaxInt64}, {math.MinInt64, -1, math.MinInt64}, {math.MinInt64, math.MaxInt64, -1},
		{math.MinInt64, math.MinInt64, math.MinInt64},
	} {
		if got := saturatingAddSigned(c.a, c.b); got != c.sum {
			t.Errorf("%d + %d is %d", c.a, c.b, got)
		}
	}
	if got := scaleSigned(-7, 1, 2); got != -3 {
		t.Errorf("-7 / 2 is %d", got)
	}
	if got := difference(3, math.MaxUint64); got != 0 {
		t.Errorf("what does not fit is %d", got)
	}
}

func TestRatiosOfWideNumbersAreExact(t *testing.T) {
	const part, scale = 3 << 40, 1_000_000_000 << 20
	for whole, want := range map[uint128]policy.Optional[uint32]{
		{0, 0}: {}, {0, 1}: policy.Some[uint32](math.MaxUint32), {1 << 8, 0}: policy.Some[uint32](732421), {5, 9}: policy.Some[uint32](37499999),
	} {
		if got := ratio(part, scale, whole); got != want {
			exact := new(big.Int).Div(new(big.Int).Mul(big.NewInt(part), big.NewInt(scale)), bigOf(uint128{whole.hi, max(whole.lo, 1)}))
			t.Errorf("of %v: %+v, want %+v (%d)", whole, got, want, exact)
		}
	}
}

func FuzzTracker(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, script []byte) {
		tracker := NewTracker(TrackerConfig{
			SampleCapacity: 4, WindowSamplesMin: 2, RememberedSamplesMax: 3, SampleAgeMax: 64, SampleWindow: 9,
		})
		var estimator CapacityEstimator
		var inFlight []Arrival
		var now policy.Instant
		for i, step := range script {
			now += policy.Instant(step>>3) * 5_000_000
			switch step % 5 {
			case 0, 1:
				inFlight = append(inFlight, tracker.Arrive(now))
			case 2, 3:
				if len(inFlight) > 0 {
					at := i % len(inFlight)
					tracker.Head(now, &inFlight[at], Outcome(step%3))
					tracker.Finish(now, inFlight[at], Outcome(step%3))
					inFlight = append(inFlight[:at], inFlight[at+1:]...)
				}
			case 4:
				if estimator.Look(now, tracker).Reads {
					used := time.Duration(now) * time.Duration(step)
					estimator.Read(now, tracker, uint64(i), policy.Some(CPUTotals{Used: used, LimitMillicores: uint32(step)}))
				}
			}
			report := tracker.Report(now)
			estimator.Fill(&report)
			if int(report.RIF) != len(inFlight) || report.Latency < 0 || report.CapacityMilliRIF.Known && report.CapacityMilliRIF.Value == 0 {
				t.Fatalf("%+v with %d in flight", report, len(inFlight))
			}
		}
	})
}
