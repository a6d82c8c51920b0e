package health_test

import (
	"path/filepath"
	"testing"

	"github.com/slackwater/slackwater/go/internal/vectors"
)

// TestVectors plays what the Rust core has played with health around its policies, and compares
// each result.
func TestVectors(t *testing.T) {
	files, err := vectors.Files(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			counts, err := vectors.ReplayFile(file, vectors.Guarded)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d scenarios, %d events, %d snapshots", counts.Scenarios, counts.Events, counts.Snapshots)
		})
	}
}
