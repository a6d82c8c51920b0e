package interop

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(helperVariable); role != "" {
		if err := runHelper(role); err != nil {
			fmt.Fprintln(os.Stderr, "slackwater interop:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
