package slackwatergrpc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/slackwater/slackwater/go/internal/vectors"
	"github.com/slackwater/slackwater/go/probe"
)

// slackwater serve accepts and rejects the same configurations.
func TestConfigVectors(t *testing.T) {
	key, err := probe.NewKey([]byte("sixteen bytes or"))
	if err != nil {
		t.Fatal(err)
	}
	RegisterKey("probes", key)
	registerSecret(t, "affinity")
	t.Cleanup(func() { RegisterKey("probes", nil) })

	folder := os.Getenv(vectors.FolderVariable)
	if folder == "" {
		folder = filepath.Join("..", "..", "vectors")
	}
	text, err := os.ReadFile(filepath.Join(folder, "cluster-policy", "configurations.json"))
	if err != nil {
		t.Fatal(err)
	}
	type vector struct {
		Name   string
		Config json.RawMessage
	}
	var cases struct{ Accepted, Rejected []vector }
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases.Accepted) == 0 || len(cases.Rejected) == 0 {
		t.Fatal("no cases")
	}
	for _, test := range cases.Accepted {
		if _, err := parseConfig(test.Config); err != nil {
			t.Errorf("%s: %v", test.Name, err)
		}
	}
	for _, test := range cases.Rejected {
		if _, err := parseConfig(test.Config); err == nil {
			t.Errorf("%s: %s is accepted", test.Name, test.Config)
		}
	}
}
