package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/internal/process"
)

// binaryVariable names the Rust binary.
const binaryVariable = "SLACKWATER_BIN"

// binariesFromHere are where cargo puts the binary.
var binariesFromHere = []string{
	"../../../target/release/slackwater",
	"../../../target/quick/slackwater",
}

// rustBinary returns the path of the Rust binary, or skips the test.
func rustBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(binaryVariable); path != "" {
		return path
	}
	for _, path := range binariesFromHere {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skipf("skipped: no binary of slackwater: set %s, or run cargo build --release -p slackwater", binaryVariable)
	return ""
}

// rustAgent is a running slackwater agent.
type rustAgent struct {
	// address is where it takes requests and probes.
	address string
	// end makes it drain and then end.
	end func()
}

// startAgent runs an agent before a server. Once it is to end, it reports for the drain delay that
// it drains, and serves.
func startAgent(t *testing.T, protocol, server string, drainDelay time.Duration) rustAgent {
	t.Helper()
	agent := process.Start(t, rustBinary(t), "agent", "--listen", process.AnyPort, "--to", server,
		"--protocol", protocol, "--drain-delay", fmt.Sprintf("%dms", drainDelay.Milliseconds()))
	return rustAgent{agent.Address(t), agent.End}
}

// rustProxy is a running slackwater serve.
type rustProxy struct {
	address, admin string
}

// startServe runs serve over replicas.
func startServe(t *testing.T, protocol, probes string, replicas []string) *rustProxy {
	t.Helper()
	names, err := json.Marshal(replicas)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "slackwater.toml")
	config := fmt.Sprintf(`listen = %q
replicas = %s
workers = 1

[replica]
protocol = %q

[probe]
transport = %q

[admin]
listen = %q
`, process.AnyPort, names, protocol, probes, process.AnyPort)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := process.Start(t, rustBinary(t), "serve", "--config", file)
	return &rustProxy{address: serve.Address(t), admin: serve.Admin(t)}
}

// rustReplica is a replica in serve's status.
type rustReplica struct {
	Address  string `json:"address"`
	State    string `json:"state"`
	Reported *struct {
		RIF       uint32  `json:"rif"`
		LatencyUS *uint64 `json:"latency_us"`
		AgeMS     uint64  `json:"age_ms"`
	} `json:"reported"`
}

// replicas returns the replicas in the status, by their addresses.
func (p *rustProxy) replicas(t *testing.T) map[string]rustReplica {
	t.Helper()
	response, err := http.Get("http://" + p.admin + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var status struct {
		Replicas []rustReplica `json:"replicas"`
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Fatalf("/status: %v", err)
	}
	replicas := map[string]rustReplica{}
	for _, r := range status.Replicas {
		replicas[r.Address] = r
	}
	return replicas
}

// reports waits until the status has reports of latency by all these replicas, and has shown
// requests in flight at one.
func (p *rustProxy) reports(t *testing.T, addresses []string) {
	t.Helper()
	busy := false
	await.Until(t, "serve has reports of all replicas, and of requests in flight", func() bool {
		all := true
		replicas := p.replicas(t)
		for _, address := range addresses {
			reported := replicas[address].Reported
			all = all && reported != nil && reported.LatencyUS != nil
			busy = busy || reported != nil && reported.RIF > 0
		}
		return all && busy
	})
}

// state waits until a replica has a state.
func (p *rustProxy) state(t *testing.T, address, state string) {
	t.Helper()
	await.Until(t, address+" is "+state, func() bool { return p.replicas(t)[address].State == state })
}
