package policy

// maxValues is the most factors of a comparison.
const maxValues = 8

// Comparison describes how candidates are compared with each other, so that any reader can show
// them as columns and recompute the order: the factors with their units, the formula, the order,
// and the rule for ties. Comparisons are constants.
type Comparison struct {
	// Name is its name, for programs.
	Name string
	// Formula combines the factors.
	Formula string
	// Shared are figures that are the same for all candidates.
	Shared []Factor
	// Factors are figures of each candidate.
	Factors []Factor
	// Order has the sort keys of candidates, the first step first. The lowest value wins. Candidates
	// that the query avoids are not sorted.
	Order []Step
	// Equals is what decides between candidates that are equal in all steps.
	Equals Equals
}

// Factor is a figure that a choice compares, or that is part of such a figure.
type Factor struct {
	// Key is its name for programs, with the unit.
	Key string
	// Name is its name for people.
	Name string
	Unit Unit
	// Parts is the number of parts of the unit that 1 in [Values] stands for.
	Parts uint64
}

// Unit is the unit of a factor.
type Unit uint8

// The units.
const (
	// UnitRequests: requests in flight, or equivalents.
	UnitRequests Unit = iota
	// UnitMicroseconds: a time.
	UnitMicroseconds
	// UnitShare: a part of a whole; 1 is all.
	UnitShare
	// UnitCount: a plain number.
	UnitCount
	// UnitFlag: 1 for true, 0 for false.
	UnitFlag
)

var unitNames = [...]string{"requests", "microseconds", "share", "count", "flag"}

// String returns the unit's name, such as microseconds.
func (u Unit) String() string { return nameOf(unitNames[:], int(u)) }

// Step is one step of an order: the lowest value of a factor wins.
type Step struct {
	// By is the key of the factor that is compared.
	By string
	// Unless is the key of a flag, or empty: if the flag is 1, this step is skipped. Earlier steps
	// make sure that it is the same for all candidates that are still equal.
	Unless string
}

// Equals is what decides between equals.
type Equals uint8

const (
	// EqualsFirst: the one with the lowest [Candidate.Number].
	EqualsFirst Equals = iota
	// EqualsDraw: a draw from 0 to 1. Of k equals in the order of their numbers, the one at
	// ⌊draw × k⌋.
	EqualsDraw
)

var equalsNames = [...]string{"first", "draw"}

// String returns its name, first or draw.
func (e Equals) String() string { return nameOf(equalsNames[:], int(e)) }

// Values are the values of a comparison's factors, in their order. The zero value has none.
type Values struct {
	count  uint8
	values [maxValues]uint64
}

// unknown marks an unknown value.
const unknown = ^uint64(0)

// valuesOf returns the first values, in the order of the factors. The rest are unknown.
func valuesOf(values ...uint64) Values {
	var all Values
	all.count = uint8(copy(all.values[:], values))
	return all
}

// At returns the value of the factor at this place, or false if it is unknown.
func (v Values) At(place int) (uint64, bool) {
	if place < 0 || place >= int(v.count) || v.values[place] == unknown {
		return 0, false
	}
	return v.values[place], true
}

func requests(key, name string, parts uint64) Factor {
	return Factor{Key: key, Name: name, Unit: UnitRequests, Parts: parts}
}

// microseconds returns a time, in parts of a microsecond.
func microseconds(key, name string, parts uint64) Factor {
	return Factor{Key: key, Name: name, Unit: UnitMicroseconds, Parts: parts}
}

func share(key, name string) Factor {
	return Factor{Key: key, Name: name, Unit: UnitShare, Parts: uint64(One)}
}

func count(key, name string) Factor { return Factor{Key: key, Name: name, Unit: UnitCount, Parts: 1} }

func flag(key, name string) Factor { return Factor{Key: key, Name: name, Unit: UnitFlag, Parts: 1} }

// ownInFlight is a client's own requests in flight.
var ownInFlight = requests("in_flight", "requests in flight", 1)

// chance is the comparison of a random replica, at any load.
var chance = &Comparison{
	Name:    "chance",
	Formula: "each is as likely as any other",
	Equals:  EqualsDraw,
}
