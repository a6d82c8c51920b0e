package interop

import (
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/grpclog"
)

// failures is gRPC's log. gRPC's interop cases report what is wrong by a fatal line of the log,
// after which gRPC ends the process. Here such a line ends the running test instead.
type failures struct {
	grpclog.LoggerV2
}

// caseRunning is the test whose interop case runs; a case calls its client on one goroutine.
var caseRunning atomic.Pointer[testing.T]

func (f failures) Fatal(args ...any)                 { f.fail(fmt.Sprint(args...)) }
func (f failures) Fatalf(format string, args ...any) { f.fail(fmt.Sprintf(format, args...)) }
func (f failures) Fatalln(args ...any)               { f.fail(fmt.Sprintln(args...)) }
func (f failures) FatalDepth(_ int, args ...any)     { f.fail(fmt.Sprintln(args...)) }
func (f failures) InfoDepth(_ int, args ...any)      { f.Infoln(args...) }
func (f failures) WarningDepth(_ int, args ...any)   { f.Warningln(args...) }
func (f failures) ErrorDepth(_ int, args ...any)     { f.Errorln(args...) }
func (f failures) fail(line string) {
	t := caseRunning.Load()
	if t == nil {
		panic("gRPC failed outside of an interop case: " + line)
	}
	// Ends this goroutine, so gRPC does not come to end the process.
	t.Fatal(line)
}

// runCase runs an interop case. Cases of one process run one after the other.
func runCase(t *testing.T, run func()) {
	caseRunning.Store(t)
	defer caseRunning.Store(nil)
	run()
}
