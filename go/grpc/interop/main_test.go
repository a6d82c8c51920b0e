package interop

import (
	"fmt"
	"io"
	"os"
	"testing"

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
