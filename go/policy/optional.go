package policy

// Optional is a value that may be absent. The zero value is absent.
type Optional[T any] struct {
	Value T
	Known bool
}

// Some returns a value that is present.
func Some[T any](value T) Optional[T] { return Optional[T]{Value: value, Known: true} }

// Get returns the value, and whether it is present.
func (o Optional[T]) Get() (T, bool) { return o.Value, o.Known }

// Or returns the value, or other if it is absent.
func (o Optional[T]) Or(other T) T {
	if o.Known {
		return o.Value
	}
	return other
}
