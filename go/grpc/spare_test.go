package slackwatergrpc

import (
	"context"
	"math"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/metadata"

	"github.com/slackwater/slackwater/go/grpc/load"
	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/policy"
)

func TestCurrentReport(t *testing.T) {
	answer := policy.LoadReport{
		RIF: 40, Latency: time.Millisecond, Incarnation: policy.Some[uint64](9),
		CapacityMilliRIF: policy.Some[uint32](1000), Cost: policy.Some(time.Second),
	}
	carried := policy.LoadReport{
		RIF: 5, CapacityMilliRIF: policy.Some[uint32](4500), Cost: policy.Some(2 * time.Microsecond),
	}
	const start = policy.Instant(time.Hour)
	both := func() *latestReports {
		latest := &latestReports{}
		latest.noteAnswer(start, &answer)
		latest.noteCarried(start, &carried, 2)
		return latest
	}
	want := answer
	want.RIF, want.CapacityMilliRIF, want.Cost = 5-2+7, carried.CapacityMilliRIF, carried.Cost
	draining := answer
	draining.Draining = true
	for _, test := range []struct {
		name string
		at   policy.Instant
		of   func() *latestReports
		own  uint32
		want policy.LoadReport
		ok   bool
	}{
		{name: "others of the one, own of now, all else of the other", of: both, at: start, own: 7, want: want, ok: true},
		{name: "just fresh", of: both, at: start.Add(carriedFresh), own: 7, want: want, ok: true},
		{name: "carried is old", of: both, at: start.Add(carriedFresh + 1), own: 7},
		{name: "none carried", of: func() *latestReports {
			latest := &latestReports{}
			latest.noteAnswer(start, &answer)
			return latest
		}, at: start},
		{name: "none answered", of: func() *latestReports {
			latest := &latestReports{}
			latest.noteCarried(start, &carried, 0)
			return latest
		}, at: start},
		{name: "answer is old", of: func() *latestReports {
			latest := both()
			latest.noteCarried(start.Add(answerFresh), &carried, 0)
			return latest
		}, at: start.Add(answerFresh + 1)},
		{name: "draining", of: func() *latestReports {
			latest := both()
			latest.noteAnswer(start, &draining)
			return latest
		}, at: start},
	} {
		got, ok := test.of().current(test.at, test.own)
		if ok != test.ok || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", test.name, got, ok, test.want, test.ok)
		}
	}
	// No number of requests wraps around.
	most := both()
	most.noteCarried(start, &policy.LoadReport{RIF: math.MaxUint32, CapacityMilliRIF: carried.CapacityMilliRIF}, 0)
	if got, _ := most.current(start, 7); got.RIF != math.MaxUint32 {
		t.Errorf("RIF %d", got.RIF)
	}
	most.noteCarried(start, &carried, 9)
	if got, _ := most.current(start, 1); got.RIF != 1 {
		t.Errorf("RIF %d with one of our own", got.RIF)
	}
}

// reportedCall is the end of a call whose response carries a report.
func reportedCall(report string) balancer.DoneInfo {
	return balancer.DoneInfo{
		BytesSent: true, BytesReceived: true, Trailer: metadata.Pairs(loadKey, report),
	}
}

// counters returns what the policy has counted, and how many probes were spared.
func (tr *trial) counters() (policy.Counters, uint64) {
	tr.engine.mu.Lock()
	defer tr.engine.mu.Unlock()
	return tr.engine.countersLocked(), tr.engine.spared
}

// pass lets time pass.
func (tr *trial) pass(span time.Duration) {
	tr.engine.mu.Lock()
	defer tr.engine.mu.Unlock()
	tr.engine.started = tr.engine.started.Add(-span)
}

// answerProbe answers a probe of the only endpoint, as if it were in flight.
func (tr *trial) answerProbe(report policy.LoadReport) {
	tr.t.Helper()
	e := tr.engine
	e.mu.Lock()
	for {
		probe, ok := e.policy.NextProbe(e.now(), e.draw)
		if ok {
			e.mu.Unlock()
			e.answered(probe.ID, &report, time.Millisecond)
			return
		}
		// An idle probe is due by then.
		e.started = e.started.Add(-time.Second)
		e.policy.Handle(e.now(), policy.Event{Kind: policy.EventTimeout}, e.draw)
	}
}

func TestProbesAreSparedByReportsOfResponses(t *testing.T) {
	for name, test := range map[string]struct {
		config, carried string
		answer          policy.LoadReport
		spares          bool
	}{
		"default":            {config: `{}`, carried: "1;4500;2000", spares: true},
		"UDP":                {config: `{"probe": {"transport": "udp"}}`, carried: "1;4500;2000", spares: true},
		"without a capacity": {config: `{}`, carried: "1;;2000"},
		"malformed":          {config: `{}`, carried: "1"},
		"draining":           {config: `{}`, carried: "1;4500;2000", answer: policy.LoadReport{Draining: true}},
		"another policy":     {config: `{"policy": "prequal"}`, carried: "1;4500;2000"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t, test.config, &fakePicker{})
			tr.answerProbe(test.answer)
			for range 20 {
				tr.pick(t.Context()).Done(reportedCall(test.carried))
				tr.pass(carriedFresh / 2)
			}
			counted, spared := tr.counters()
			if (spared > 0) != test.spares {
				t.Errorf("%d probes spared", spared)
			}
			if counted.ProbesAnswered != 1 {
				t.Errorf("%d probes answered, of which %d were spared", counted.ProbesAnswered, spared)
			}
			sent := counted.ProbesSent
			// Without a new response the endpoint is probed again. No connection takes the probe here.
			tr.pass(2 * carriedFresh)
			unsent := counted.ProbesUnsent
			for range 4 {
				tr.pick(t.Context())
				tr.pass(2 * carriedFresh)
			}
			counted, sparedThen := tr.counters()
			if counted.ProbesSent == sent || counted.ProbesUnsent == unsent || sparedThen != spared {
				t.Errorf("%d probes sent and %d spared, before %d and %d",
					counted.ProbesSent, sparedThen, sent, spared)
			}
		})
	}
}

// A real probe is sent now and then, for what responses do not carry.
func TestAnswersToProbesAreNotReplacedForLong(t *testing.T) {
	tr := newTrial(t, `{}`, &fakePicker{})
	tr.answerProbe(policy.LoadReport{})
	before, _ := tr.counters()
	for range 2 * answerFresh / (carriedFresh / 2) {
		tr.pick(t.Context()).Done(reportedCall("0;4500;2000"))
		tr.pass(carriedFresh / 2)
	}
	if after, _ := tr.counters(); after.ProbesSent == before.ProbesSent {
		t.Error("the last answer holds forever")
	}
}

// A new connection may lead to another server.
func TestReportsEndWithTheConnection(t *testing.T) {
	tr := newTrial(t, `{}`, &fakePicker{})
	tr.answerProbe(policy.LoadReport{})
	tr.pick(t.Context()).Done(reportedCall("0;4500;2000"))
	tr.engine.setReady(tr.members, nil)
	tr.pick(t.Context())
	tr.pick(t.Context())
	if _, spared := tr.counters(); spared > 0 {
		t.Errorf("%d probes spared by reports of an earlier connection", spared)
	}
}

// serveReporter starts a server with a reporter of its load.
func serveReporter(t *testing.T, handle func(context.Context) error) *server {
	t.Helper()
	reporter := load.New()
	return serveServices(t, "127.0.0.1:0", handle, false, func(s *grpc.Server) { reporter.Register(s) },
		reporter.ServerOptions()...)
}

func TestCallsCarryReports(t *testing.T) {
	for _, transport := range []string{"grpc", "udp"} {
		t.Run(transport, func(t *testing.T) {
			servers := []*server{serveReporter(t, nil), serveReporter(t, nil)}
			for _, s := range servers {
				serveDatagrams(t, s)
			}
			c := dial(t, `{"probe": {"transport": "`+transport+`"}}`, servers)
			c.connected(t, 2)
			await.Until(t, "probes are spared", func() bool {
				c.mustCall(t)
				e := c.channel(t).current()
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.spared > 0
			})
			if probes := c.channel(t).Snapshot().Probes; probes.Answered > probes.Sent {
				t.Errorf("probes %+v", probes)
			}
		})
	}
}

// Servers are requested once on each connection, or with each probe by gRPC, and only for a policy
// that reads the reports.
func TestReportsAreRequestedFromServers(t *testing.T) {
	for config, want := range map[string]func(probes, requests int64) bool{
		`{}`:                    func(probes, requests int64) bool { return requests == probes },
		`{"policy": "prequal"}`: func(_, requests int64) bool { return requests == 0 },
		`{"probe": {"transport": "udp"}}`: func(probes, requests int64) bool {
			return probes <= 1 && requests == probes
		},
		`{"policy": "prequal", "probe": {"transport": "udp"}}`: func(probes, requests int64) bool {
			return requests == 0
		},
	} {
		t.Run(config, func(t *testing.T) {
			s := serve(t, nil)
			serveProbes(t, nil, 0)
			c := dial(t, config, []*server{s})
			c.connected(t, 1)
			await.Until(t, "probes", func() bool {
				c.mustCall(t)
				return c.channel(t).Snapshot().Probes.Sent > 5
			})
			// A probe that is counted first is one more probe than requests.
			await.Until(t, "requests", func() bool {
				requests := s.carryRequests.Load()
				return want(s.probes.Load(), requests)
			})
		})
	}
}
