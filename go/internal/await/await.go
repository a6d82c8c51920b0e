// Package await lets tests wait for a condition, not for a time.
package await

import (
	"testing"
	"time"
)

// Patience is how long tests wait for what comes soon. It is long, because a machine may be busy.
const Patience = time.Minute

// pause is the time between two looks.
const pause = 2 * time.Millisecond

// Until waits until a condition holds. The test fails if it does not within [Patience].
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
}
