package policy_test

import (
	"path/filepath"
	"testing"

	"github.com/slackwater/slackwater/go/internal/vectors"
)

// TestVectors plays what the Rust core has played, and compares each result.
func TestVectors(t *testing.T) {
	files, err := vectors.Files(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			counts, err := vectors.ReplayFile(file, vectors.Bare)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d scenarios, %d events, %d snapshots", counts.Scenarios, counts.Events, counts.Snapshots)
		})
	}
}
