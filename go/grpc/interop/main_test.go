package interop

import (
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc/grpclog"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(helperVariable); role != "" {
		if err := runHelper(role); err != nil {
			fmt.Fprintln(os.Stderr, proxyFailure, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	grpclog.SetLoggerV2(failures{grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)})
	os.Exit(m.Run())
}

// patience is how long a test waits for something that happens soon.
const patience = time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
