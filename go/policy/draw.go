package policy

import "math/bits"

// Draw is a source of random 64-bit draws, uniform over all values. The mapping from a draw to a
// choice is fixed, so that with the same draws every implementation makes the same choices.
type Draw interface {
	Draw() uint64
}

// SplitMix64 is Sebastiano Vigna's generator of draws (that of Java's SplittableRandom), with one
// word of state. It is for callers, tests and examples, and not for secrets. The same seed always
// gives the same draws. The zero value is a generator with seed 0.
type SplitMix64 struct {
	state uint64
}

// NewSplitMix64 returns a generator that starts from seed. Every seed is as good as any other.
func NewSplitMix64(seed uint64) *SplitMix64 { return &SplitMix64{state: seed} }

// Draw returns the next draw.
func (s *SplitMix64) Draw() uint64 {
	s.state += 0x9E3779B97F4A7C15
	z := s.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Below returns a whole number below bound, as ⌊draw · bound / 2^64⌋. It takes one draw, even if
// the bound is 1. A bound of 0 returns 0. The bias is at most bound / 2^64.
func Below(draw Draw, bound uint32) uint32 {
	high, _ := bits.Mul64(draw.Draw(), uint64(bound))
	return uint32(high)
}
