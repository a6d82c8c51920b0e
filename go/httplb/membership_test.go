package httplb

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/policy"
)

// names returns the names of the replicas, by their URLs.
func names(transport *Transport) map[string]policy.ReplicaID {
	names := make(map[string]policy.ReplicaID)
	for _, replica := range transport.Snapshot().Replicas {
		names[replica.URL] = replica.Replica
	}
	return names
}

func TestReplicaThatStaysKeepsWhatIsKnown(t *testing.T) {
	servers, replicas := serveReplicas(t, nil, nil, nil)
	transport := newTransport(t, replicas[:2])
	before := names(transport)
	// The first stays, the second moves its probes, and the third joins.
	replicas[1].Probe = servers[1].URL + "/elsewhere"
	if err := transport.SetReplicas(replicas); err != nil {
		t.Fatal(err)
	}
	after := names(transport)
	if len(after) != 3 {
		t.Fatalf("replicas %v", after)
	}
	if first := servers[0].URL; before[first] != after[first] {
		t.Errorf("the replica that stayed was %v and is %v", before[first], after[first])
	}
	if second := servers[1].URL; before[second] == after[second] {
		t.Errorf("the replica with another probe address is still %v", after[second])
	}
}

func TestReplicasAfterClose(t *testing.T) {
	transport := newTransport(t, nil, WithoutProbes())
	if err := transport.Close(); err != nil {
		t.Fatal(err)
	}
	if err := transport.SetReplicas(URLs("http://10.0.0.1")); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v", err)
	}
	if replicas := transport.Snapshot().Replicas; len(replicas) != 0 {
		t.Errorf("replicas %v", replicas)
	}
}

// With the same seed, the same changes of the replicas and the same requests give the same picks.
func TestSeedRepeatsPicks(t *testing.T) {
	picks := func() (hosts []string) {
		base := roundTripper(func(request *http.Request) (*http.Response, error) {
			hosts = append(hosts, request.URL.Host)
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		})
		transport := newTransport(t, nil, WithBase(base), WithoutProbes(),
			WithPolicy("random", policy.DefaultSettings()), WithHealth(health.OffSettings()))
		for generation := range 4 {
			urls := make([]string, 20)
			for i := range urls {
				// Every second replica stays.
				urls[i] = fmt.Sprintf("http://10.0.%d.%d", i%2*generation, i)
			}
			if err := transport.SetReplicas(URLs(urls...)); err != nil {
				t.Fatal(err)
			}
			for range 50 {
				fetch(t, transport)
			}
		}
		return hosts
	}
	if first, second := picks(), picks(); !slices.Equal(first, second) {
		t.Errorf("picks\n%v\nand then\n%v", first, second)
	}
}

func TestIdleProbesAreSent(t *testing.T) {
	_, replicas := serveReplicas(t, nil, nil)
	transport := newTransport(t, replicas)
	await(t, func() bool {
		snapshot := transport.Snapshot()
		return snapshot.Counters.ProbesIdle >= 6 && snapshot.Counters.ProbesAnswered >= 4 &&
			snapshot.HTTPProbes.Answered >= 4
	}, func() { t.Errorf("counters %+v", transport.Snapshot().Counters) })
}

func TestFailedProbesAreLost(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	replicas := URLs("http://" + listener.Addr().String())
	// It keeps its port, which would be another process's otherwise, and answers no client.
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	transport := newTransport(t, replicas)
	await(t, func() bool {
		snapshot := transport.Snapshot()
		return snapshot.Counters.ProbesLost >= 3 && snapshot.HTTPProbes.Broken >= 3
	}, func() { t.Errorf("counters %+v", transport.Snapshot().Counters) })
}

func TestRequestsBeyondTheMostRoundsDoNotWait(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	_, replicas := serveReplicas(t, nil, nil, nil)
	for i := range replicas {
		replicas[i].Probe = silent.LocalAddr().String()
	}
	settings := policy.DefaultSettings()
	settings.Prequal.SyncDeadline = 2 * patience
	transport := newUDPTransport(t, replicas, WithPolicy("prequal_sync", settings))
	b := transport.balancer
	b.mu.Lock()
	b.rounds = roundsMax
	b.mu.Unlock()
	if status, _ := fetch(t, transport); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}
