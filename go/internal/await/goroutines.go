package await

import (
	"runtime"
	"strings"
	"time"
)

// GoroutinesLeft waits, up to [Patience], until no goroutine of gRPC or of these modules runs but
// the caller's, and returns the stacks of those that still do.
func GoroutinesLeft() string {
	for deadline := time.Now().Add(Patience); ; time.Sleep(pause) {
		left := stacks()
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// stacks returns the stacks of the goroutines of gRPC and of these modules but the caller's, which
// is the first.
func stacks() []string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	var ours []string
	for _, stack := range strings.Split(string(all), "\n\n")[1:] {
		if strings.Contains(stack, "google.golang.org/grpc") || strings.Contains(stack, "slackwater") {
			ours = append(ours, stack)
		}
	}
	return ours
}
