package slackwatergrpc

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/slackwater/slackwater/go/internal/vectors"
)

// slackwater serve accepts and rejects the same configurations.
func TestConfigVectors(t *testing.T) {
	registerNames(t)
	text, err := os.ReadFile(vectors.ClusterPolicies())
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
