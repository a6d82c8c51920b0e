package policy

import "math/bits"

const (
	// orderedMax is the most rows that can be in order.
	orderedMax = 16
	// placeBits is the size of a place in the order.
	placeBits = 4
	// placeOnes has 1 in each position.
	placeOnes = ^uint64(0) / 15
)

// newestOrder is places of rows, each below orderedMax and at most once, the newest first, so that
// the oldest is found without a search. They are packed into one number, in which the newest has
// the lowest bits: to move one place, others are shifted all at once. How many places there are is
// left to the caller, which knows. Bits beyond the places have no effect.
type newestOrder uint64

func (o newestOrder) at(position int) int { return int(o >> (position * placeBits) & 15) }

// oldest returns the oldest of this many places, of which there must be one.
func (o newestOrder) oldest(count int) int { return o.at(count - 1) }

// take takes out a place, which must be there.
func (o *newestOrder) take(place int) {
	// All bits of a position are 0 where it has this place. The first such position is found by
	// subtraction: there a borrow comes from no lower one.
	differing := uint64(*o) ^ uint64(place)*placeOnes
	equal := (differing - placeOnes) &^ differing & (placeOnes << (placeBits - 1))
	newer := bitsBelow(bits.TrailingZeros64(equal) / placeBits)
	*o = *o&newer | *o>>placeBits&^newer
}

// add adds a place to this many others, behind those that are newer. isNewer returns whether
// another place is. There must be fewer than orderedMax others.
func (o *newestOrder) add(place, count int, isNewer func(int) bool) {
	// Nearly always it is the newest.
	position := 0
	for position < count && isNewer(o.at(position)) {
		position++
	}
	newer := bitsBelow(position)
	*o = (*o&^newer)<<placeBits | newestOrder(place)<<(position*placeBits) | *o&newer
}

// bitsBelow returns the bits of the positions below this one.
func bitsBelow(position int) newestOrder { return newestOrder(1)<<(position*placeBits) - 1 }
