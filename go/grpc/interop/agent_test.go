package interop

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/slackwater/slackwater/go/httplb"
	"github.com/slackwater/slackwater/go/internal/await"
)

// threeTimes are how long requests take at three replicas, of which the first is slow.
var threeTimes = []time.Duration{slowTime, usualTime, usualTime}

// TestGRPCClientOverRustAgents balances over agents before gRPC servers that report nothing.
func TestGRPCClientOverRustAgents(t *testing.T) {
	rustBinary(t)
	for _, transport := range []string{"udp", "http"} {
		t.Run(transport, func(t *testing.T) {
			var agents []string
			var answered []*atomic.Int64
			for _, takes := range threeTimes {
				r := startReplica(t, replicaOptions{takes: takes, plain: true})
				agents = append(agents, startAgent(t, "h2c", r.address, 0).address)
				answered = append(answered, r.answered)
			}
			client := testgrpc.NewTestServiceClient(dial(t, transport, nil, agents...))
			available(t, client, len(agents))
			send(t, requests, unary(client))
			avoided(t, answered)
			snapshot := snapshotOf(t)
			t.Logf("probes: %+v, picks: %v", snapshot.Probes, snapshot.Picks)
			if snapshot.Probes.Answered == 0 {
				t.Error("no probe was answered")
			}
			for _, report := range snapshot.Reports {
				if report.Local {
					t.Errorf("report of %s is this channel's own: %+v", report.Endpoint, report)
				}
			}
		})
	}
}

// TestGRPCClientLeavesDrainingRustAgent ends one of three agents under load: the client sees that
// it drains, and no call fails.
func TestGRPCClientLeavesDrainingRustAgent(t *testing.T) {
	rustBinary(t)
	var agents []rustAgent
	var addresses []string
	for range threeTimes {
		r := startReplica(t, replicaOptions{takes: usualTime, plain: true})
		agent := startAgent(t, "h2c", r.address, 3*time.Second)
		agents, addresses = append(agents, agent), append(addresses, agent.address)
	}
	client := testgrpc.NewTestServiceClient(dial(t, "udp", nil, addresses...))
	available(t, client, len(agents))
	drained := agents[1]
	during(t, unary(client), func() {
		drained.end()
		await.Until(t, "the channel shows that the agent drains", func() bool {
			return stateOf(t, drained.address) == "draining"
		})
		await.Until(t, "the agent has ended", func() bool { return stateOf(t, drained.address) == "" })
	})
}

// stateOf returns the state of an endpoint of the test's channel, or "" if it is not connected.
func stateOf(t *testing.T, address string) string {
	for _, endpoint := range snapshotOf(t).Endpoints {
		if endpoint.Address == address {
			return endpoint.State
		}
	}
	return ""
}

// TestHTTPClientOverRustAgents does the same with net/http.
func TestHTTPClientOverRustAgents(t *testing.T) {
	rustBinary(t)
	for _, setup := range []struct {
		name    string
		options []httplb.Option
	}{
		{name: "udp"},
		{name: "http", options: []httplb.Option{httplb.WithHTTPProbes("")}},
	} {
		t.Run(setup.name, func(t *testing.T) {
			var urls []string
			var answered []*atomic.Int64
			for _, takes := range threeTimes {
				r := startHTTPReplica(t, takes, true)
				urls = append(urls, "http://"+startAgent(t, "http1", r.address, 0).address)
				answered = append(answered, r.answered)
			}
			transport, err := httplb.New(httplb.URLs(urls...), setup.options...)
			if err != nil {
				t.Fatal(err)
			}
			defer transport.Close()
			send(t, requests, get(&http.Client{Transport: transport}, "http://service/"))
			avoided(t, answered)
			snapshot := transport.Snapshot()
			t.Logf("probes answered: %d of %d", snapshot.Counters.ProbesAnswered, snapshot.Counters.ProbesSent)
			for _, r := range snapshot.Replicas {
				if r.Unprobed || r.Lost {
					t.Errorf("%s has answered no probe: %s", r.URL, r.State)
				}
			}
		})
	}
}
