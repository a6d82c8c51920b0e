package httplb

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// drive sends this many requests from several clients at once, and returns how many failed.
func drive(t *testing.T, transport *Transport, clients, requests int) (failed int64) {
	t.Helper()
	var left, failures atomic.Int64
	left.Store(int64(requests))
	client := http.Client{Transport: transport, Timeout: patience}
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				response, err := client.Get("http://service/path")
				if err != nil {
					failures.Add(1)
					continue
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode >= 500 {
					failures.Add(1)
				}
				_ = response.Body.Close()
			}
		})
	}
	running.Wait()
	return failures.Load()
}

var testedPolicies = []string{policy.Default, "prequal", "prequal_sync"}

func TestSlowReplicaIsAvoided(t *testing.T) {
	for _, name := range testedPolicies {
		t.Run(name, func(t *testing.T) {
			const requests = 600
			servers, replicas := serveReplicas(t,
				pause(time.Millisecond), pause(time.Millisecond), pause(60*time.Millisecond), pause(time.Millisecond))
			settings := policy.DefaultSettings()
			// On a busy machine, probes over HTTP take longer than the default allows.
			settings.Prequal.SyncDeadline = patience
			transport := newTransport(t, replicas, WithPolicy(name, settings))
			if failed := drive(t, transport, 8, requests); failed != 0 {
				t.Errorf("%d requests failed", failed)
			}
			if slow := servers[2].hits.Load(); slow > requests/10 {
				t.Errorf("the slow server got %d of %d requests: an equal share is %d", slow, requests, requests/4)
			}
		})
	}
}

func TestReplicaThatFailsFastGetsLittle(t *testing.T) {
	for _, name := range testedPolicies {
		t.Run(name, func(t *testing.T) {
			const requests = 800
			var fails atomic.Bool
			failing := func(w http.ResponseWriter, r *http.Request) {
				if fails.Load() {
					fail(w, r)
				} else {
					pause(2*time.Millisecond)(w, r)
				}
			}
			servers, replicas := serveReplicas(t,
				pause(2*time.Millisecond), failing, pause(2*time.Millisecond), pause(2*time.Millisecond))
			transport := newTransport(t, replicas, WithPolicy(name, policy.DefaultSettings()))
			drive(t, transport, 8, requests/2)
			fails.Store(true)
			before := servers[1].hits.Load()
			drive(t, transport, 8, requests)
			if hits := servers[1].hits.Load() - before; hits > requests/20 {
				t.Errorf("the failing server got %d of %d requests", hits, requests)
			}
			for _, replica := range transport.Snapshot().Replicas {
				if replica.URL == replicas[1].URL && replica.State != "ejected" && replica.State != "limited" {
					t.Errorf("the failing server is %s", replica.State)
				}
			}
		})
	}
}

func TestReplicaThatStallsGetsNoMore(t *testing.T) {
	var stalls atomic.Bool
	stalled := func(w http.ResponseWriter, r *http.Request) {
		if stalls.Load() {
			<-r.Context().Done()
			return
		}
		pause(2*time.Millisecond)(w, r)
	}
	servers, replicas := serveReplicas(t, pause(2*time.Millisecond), pause(2*time.Millisecond), stalled)
	transport := newTransport(t, replicas)
	drive(t, transport, 4, 200)
	stalls.Store(true)
	before := servers[2].hits.Load()
	client := http.Client{Transport: transport, Timeout: 200 * time.Millisecond}
	timedOut := 0
	for range 300 {
		response, err := client.Get("http://service/path")
		if err != nil {
			timedOut++
			continue
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if hits := servers[2].hits.Load() - before; hits > 30 || timedOut > 30 {
		t.Errorf("the stalled server got %d of 300 requests, and %d timed out", hits, timedOut)
	}
}

// Requests to replicas that leave continue, and none goes to one that has left.
func TestReplicasAreSwappedUnderLoad(t *testing.T) {
	for _, name := range testedPolicies {
		t.Run(name, func(t *testing.T) {
			handlers := make([]http.HandlerFunc, 6)
			for i := range handlers {
				handlers[i] = pause(time.Millisecond)
			}
			servers, replicas := serveReplicas(t, handlers...)
			transport := newTransport(t, replicas[:3], WithPolicy(name, policy.DefaultSettings()))
			loaded := make(chan int64)
			go func() { loaded <- drive(t, transport, 8, 800) }()
			hits := func() (hits int64) {
				for _, server := range servers {
					hits += server.hits.Load()
				}
				return hits
			}
			// One swap every 40 requests: the load does not end before the last.
			for swap := range 20 {
				await(t, func() bool { return hits() >= int64(40*swap) },
					func() { t.Errorf("%d requests before swap %d", hits(), swap) })
				first := swap % 4
				if err := transport.SetReplicas(replicas[first : first+3]); err != nil {
					t.Error(err)
				}
			}
			if failed := <-loaded; failed != 0 {
				t.Errorf("%d requests failed", failed)
			}
			if err := transport.SetReplicas(replicas[5:]); err != nil {
				t.Fatal(err)
			}
			before := servers[5].hits.Load()
			drive(t, transport, 4, 100)
			if hits := servers[5].hits.Load() - before; hits != 100 {
				t.Errorf("the only replica got %d of 100 requests", hits)
			}
		})
	}
}

func TestKilledServerFailsFewRequests(t *testing.T) {
	const requests = 2000
	var hits atomic.Int64
	busy := make(chan struct{})
	first := func(w http.ResponseWriter, r *http.Request) {
		if hits.Add(1) == 50 {
			close(busy)
		}
		pause(time.Millisecond)(w, r)
	}
	servers, replicas := serveReplicas(t, first, pause(time.Millisecond), pause(time.Millisecond))
	transport := newTransport(t, replicas)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		<-busy
		_ = servers[0].Listener.Close()
		servers[0].CloseClientConnections()
	}()
	failed := drive(t, transport, 8, requests)
	<-killed
	// Those in flight, and those that find out. Mostly there are fewer than 10.
	if failed > requests/20 {
		t.Errorf("%d of %d requests failed: an equal share is %d", failed, requests, requests/3)
	}
}

func TestDrainingReplicaGetsNoMore(t *testing.T) {
	servers, replicas := serveReplicas(t, nil, nil, nil)
	transport := newTransport(t, replicas)
	drive(t, transport, 4, 100)
	servers[0].load.Drain()
	await(t, func() bool {
		fetch(t, transport)
		for _, replica := range transport.Snapshot().Replicas {
			if replica.URL == replicas[0].URL && replica.State == "draining" {
				return true
			}
		}
		return false
	}, func() { t.Errorf("replicas %+v", transport.Snapshot().Replicas) })
	before := servers[0].hits.Load()
	drive(t, transport, 4, 200)
	if hits := servers[0].hits.Load() - before; hits != 0 {
		t.Errorf("the draining server got %d requests", hits)
	}
}

func TestBodiesThatNobodyReadsLeaveNothingInFlight(t *testing.T) {
	_, replicas := serveReplicas(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
	}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	transport := newTransport(t, replicas)
	var clients sync.WaitGroup
	for client := range 6 {
		clients.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithCancel(context.Background())
				response, err := transport.RoundTrip(newRequest(t, ctx, nil))
				if err != nil {
					t.Error(err)
					cancel()
					continue
				}
				switch (client + i) % 4 {
				case 0:
					_, _ = io.Copy(io.Discard, response.Body)
				case 1:
					_, _ = response.Body.Read(make([]byte, 100))
				case 2:
					// The client leaves while it reads.
					go cancel()
					_, _ = io.Copy(io.Discard, response.Body)
				}
				_ = response.Body.Close()
				cancel()
			}
		})
	}
	clients.Wait()
	snapshot := transport.Snapshot()
	if snapshot.InFlight != 0 {
		t.Errorf("in flight: %d", snapshot.InFlight)
	}
	for _, replica := range snapshot.Replicas {
		if replica.InFlight != 0 {
			t.Errorf("%s: %d in flight", replica.URL, replica.InFlight)
		}
	}
}

// udpReplica answers probes over UDP at its own port, and reports what report returns.
func udpReplica(t *testing.T, url string, report func(hint []byte) policy.LoadReport) Replica {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	responder := &probe.Responder{Report: report}
	go func() { served <- responder.Serve(ctx, conn) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(conn.Close(), <-served); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return Replica{URL: url, Probe: conn.LocalAddr().String()}
}

func newUDPTransport(t *testing.T, replicas []Replica, given ...Option) *Transport {
	t.Helper()
	udp := func(o *options) { o.probes = probesUDP }
	return newTransport(t, replicas, append([]Option{udp}, given...)...)
}

func TestProbesOverUDP(t *testing.T) {
	servers, replicas := serveReplicas(t, nil, nil)
	for i, s := range servers {
		replicas[i] = udpReplica(t, s.URL, s.load.Report)
	}
	transport := newUDPTransport(t, replicas,
		WithProbesFrom(netip.MustParseAddr("127.0.0.1"), netip.Addr{}))
	await(t, func() bool {
		fetch(t, transport)
		return transport.Snapshot().Counters.ProbesAnswered >= 10
	}, func() { t.Errorf("counters %+v", transport.Snapshot().Counters) })
	for _, replica := range transport.Snapshot().Replicas {
		if replica.Unprobed || replica.Lost {
			t.Errorf("replica %+v", replica)
		}
	}
}

func TestReplicasThatAnswerNoProbesAreBalanced(t *testing.T) {
	for name, option := range map[string]Option{
		"no probes": WithoutProbes(), "wrong path": WithHTTPProbes("/nothing-here"),
	} {
		t.Run(name, func(t *testing.T) {
			servers, replicas := serveReplicas(t, pause(time.Millisecond), pause(40*time.Millisecond), pause(time.Millisecond))
			transport := newTransport(t, replicas, option)
			if failed := drive(t, transport, 6, 600); failed != 0 {
				t.Errorf("%d failed", failed)
			}
			// A probe on a path that is not a probe's counts as a request of the server.
			if picks := transport.Snapshot().Counters.Picks; picks.Total() != 600 {
				t.Errorf("%d picks", picks.Total())
			}
			if slow := servers[1].hits.Load(); name == "no probes" && slow > 100 {
				t.Errorf("the slow server got %d of 600 requests", slow)
			}
		})
	}
}

func TestSynchronousRoundPrefersTheReplicaWithTheData(t *testing.T) {
	servers, replicas := serveReplicas(t, nil, nil)
	scale := func(own string) func([]byte) uint16 {
		return func(hint []byte) uint16 {
			if string(hint) == own {
				return 10
			}
			return 4096
		}
	}
	for i, s := range servers {
		l := load.New(load.Options{HintScale: scale([]string{"a", "b"}[i])})
		l.Begin() // so that there is a load to scale
		replicas[i] = udpReplica(t, s.URL, l.Report)
	}
	settings := policy.DefaultSettings()
	settings.Prequal.SyncDeadline = patience
	settings.Prequal.SyncProbes = 2 // a choice waits for both answers
	transport := newUDPTransport(t, replicas, WithPolicy("prequal_sync", settings),
		WithHint(func(*http.Request) []byte { return []byte("a") }))
	const requests = 60
	for range requests {
		fetch(t, transport)
	}
	if hits := servers[0].hits.Load(); hits < requests*9/10 {
		t.Errorf("the server with the data got %d of %d requests", hits, requests)
	}
	counters := transport.Snapshot().Counters
	if counters.Rounds == 0 || counters.ProbingNS == 0 {
		t.Errorf("counters %+v, want rounds", counters)
	}
}

// A hint is the caller's code. Its panic must not take the place of a round permanently.
func TestPanicOfAHintLeavesNoRound(t *testing.T) {
	_, replicas := serveReplicas(t, nil, nil)
	transport := newTransport(t, replicas, WithPolicy("prequal_sync", policy.DefaultSettings()),
		WithHint(func(*http.Request) []byte { panic("hint") }))
	func() {
		defer func() {
			if reason := recover(); reason != "hint" {
				t.Errorf("recovered %v", reason)
			}
		}()
		_, _ = transport.RoundTrip(newRequest(t, t.Context(), nil))
	}()
	b := transport.balancer
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rounds != 0 {
		t.Errorf("%d requests wait for probes", b.rounds)
	}
}

func TestSynchronousRoundEndsAtItsDeadlineOrWithItsRequest(t *testing.T) {
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
	t.Run("deadline", func(t *testing.T) {
		settings.Prequal.SyncDeadline = 5 * time.Millisecond
		transport := newUDPTransport(t, replicas, WithPolicy("prequal_sync", settings))
		if status, _ := fetch(t, transport); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	})
	t.Run("request", func(t *testing.T) {
		settings.Prequal.SyncDeadline = patience
		transport := newUDPTransport(t, replicas, WithPolicy("prequal_sync", settings))
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
		if rounds := transport.balancer.rounds; rounds != 0 {
			t.Errorf("%d rounds are left", rounds)
		}
		if picks := transport.Snapshot().Counters.Picks; picks.Total() != 0 {
			t.Errorf("%d picks for a request that has ended", picks.Total())
		}
	})
	t.Run("close", func(t *testing.T) {
		settings.Prequal.SyncDeadline = patience
		transport := newUDPTransport(t, replicas, WithPolicy("prequal_sync", settings))
		done := make(chan struct{})
		go func() {
			defer close(done)
			fetch(t, transport)
		}()
		b := transport.balancer
		await(t, func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.rounds == 1
		}, func() { t.Error("no round") })
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
}
