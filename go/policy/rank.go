package policy

import "cmp"

// place is the sort key of a candidate; lower is better.
type place struct {
	// first is what decides.
	first uint64
	// second decides between equals in first.
	second uint64
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.first, other.first), cmp.Compare(p.second, other.second))
}

func (p place) less(other place) bool {
	return p.first < other.first || p.first == other.first && p.second < other.second
}
