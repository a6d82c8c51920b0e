package slackwatergrpc

import (
	"context"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/policy"
)

// counts are what has been recorded, by metric and label.
type counts struct {
	estats.MetricsRecorder

	mu      sync.Mutex
	counted map[string]int64
	labels  map[string][]string
}

func newCounts() *counts { return &counts{counted: map[string]int64{}, labels: map[string][]string{}} }

func (c *counts) add(name string, value int64, labels []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counted[name] += value
	c.labels[name] = labels
}

func (c *counts) of(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counted["grpc.lb.slackwater."+name]
}

func (c *counts) labelsOf(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.labels["grpc.lb.slackwater."+name]
}

func (c *counts) RecordInt64Count(h *estats.Int64CountHandle, value int64, labels ...string) {
	c.add(h.Name, value, labels)
}

func (c *counts) RecordInt64Gauge(h *estats.Int64GaugeHandle, value int64, labels ...string) {
	c.mu.Lock()
	c.counted[h.Name] = 0
	c.mu.Unlock()
	c.add(h.Name, value, labels)
}

func (c *counts) RecordFloat64Histo(h *estats.Float64HistoHandle, _ float64, labels ...string) {
	c.add(h.Name, 1, labels)
}

// fakePicker is the picker of an endpoint without a connection.
type fakePicker struct {
	err  error
	done int
}

func (p *fakePicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	if p.err != nil {
		return balancer.PickResult{}, p.err
	}
	return balancer.PickResult{Done: func(balancer.DoneInfo) { p.done++ }}, nil
}

// trial is a picker over endpoints without connections.
type trial struct {
	t       *testing.T
	engine  *engine
	picker  *picker
	counts  *counts
	members []*endpointPicker
}

// trialTarget is the target of a trial's channel.
const trialTarget = "test:///servers"

func newTrial(t *testing.T, config string, children ...*fakePicker) *trial {
	t.Helper()
	parsed, err := parseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	counts := newCounts()
	e, err := newEngine(parsed, newMetrics(counts, trialTarget), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	trial := &trial{t: t, engine: e, picker: &picker{engine: e}, counts: counts}
	for i, child := range children {
		trial.members = append(trial.members, &endpointPicker{
			Picker: child, endpoint: &endpoint{name: string(rune('a' + i))},
		})
	}
	e.setReady(trial.members, nil)
	return trial
}

// replace makes a new engine, with the same endpoints, while the picker stays.
func (tr *trial) replace(config string) {
	tr.t.Helper()
	parsed, err := parseConfig([]byte(config))
	if err != nil {
		tr.t.Fatal(err)
	}
	next, err := newEngine(parsed, newMetrics(tr.counts, trialTarget), true)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.t.Cleanup(next.close)
	tr.engine.mu.Lock()
	var ready []*endpointPicker
	for _, member := range tr.members {
		if id, known := tr.engine.fleet[member.endpoint]; known && tr.engine.members[id.Index()].isReady {
			ready = append(ready, member)
		}
	}
	tr.engine.mu.Unlock()
	next.setReady(ready, nil)
	next.takeOver(tr.engine)
	tr.engine.close()
	tr.engine = next
}

func (tr *trial) pick(ctx context.Context) balancer.PickResult {
	tr.t.Helper()
	result, err := tr.picker.Pick(balancer.PickInfo{FullMethodName: "/test/Call", Ctx: ctx})
	if err != nil {
		tr.t.Fatal(err)
	}
	return result
}

func (tr *trial) inFlight() (all uint32) {
	tr.engine.mu.Lock()
	defer tr.engine.mu.Unlock()
	for _, replica := range tr.engine.policy.Snapshot(tr.engine.now()).Replicas {
		all += replica.InFlight
	}
	return all
}

const local = `{"policy": "least_loaded", "probe": {"transport": "none"}, "health": "off"}`

func TestNeverSentGivesBackTheCharge(t *testing.T) {
	child := &fakePicker{}
	tr := newTrial(t, local, child)
	result := tr.pick(t.Context())
	if got := tr.inFlight(); got != 1 {
		t.Fatalf("%d in flight", got)
	}
	result.Done(balancer.DoneInfo{})
	if got := tr.inFlight(); got != 0 {
		t.Errorf("%d in flight after a call that was never sent", got)
	}
	if child.done != 1 {
		t.Errorf("the child was notified %d times", child.done)
	}
	if got := tr.counts.of("picks_unsent"); got != 1 {
		t.Errorf("picks_unsent %d", got)
	}
	// gRPC does not call it twice. If it did, the charge would not be given back twice.
	second := tr.pick(t.Context())
	result.Done(balancer.DoneInfo{})
	if got := tr.inFlight(); got != 1 {
		t.Errorf("%d in flight", got)
	}
	second.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
	if got := tr.counts.of("picks_unsent"); got != 2 {
		t.Errorf("picks_unsent %d", got)
	}
}

func TestErrorOfTheChildGivesBackTheCharge(t *testing.T) {
	lost := errors.New("lost")
	tr := newTrial(t, local, &fakePicker{err: lost})
	if _, err := tr.picker.Pick(balancer.PickInfo{Ctx: t.Context()}); !errors.Is(err, lost) {
		t.Errorf("error %v", err)
	}
	if got := tr.inFlight(); got != 0 {
		t.Errorf("%d in flight", got)
	}
}

func TestNoEndpoints(t *testing.T) {
	tr := newTrial(t, local, &fakePicker{})
	result := tr.pick(t.Context())
	tr.engine.setReady(nil, nil)
	if _, err := tr.picker.Pick(balancer.PickInfo{Ctx: t.Context()}); err != balancer.ErrNoSubConnAvailable {
		t.Errorf("error %v", err)
	}
	// The endpoint has left, and its call ends.
	result.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
	tr.engine.setReady(tr.members, nil)
	if got := tr.inFlight(); got != 0 {
		t.Errorf("%d in flight", got)
	}
}

// closedBalancer is a child that can be closed.
type closedBalancer struct{ balancer.Balancer }

func (closedBalancer) Close() {}

// An endpoint that the resolver no longer returns is not picked any more, even before the next
// picker.
func TestClosedEndpointLeavesAtOnce(t *testing.T) {
	tr := newTrial(t, local, &fakePicker{}, &fakePicker{})
	gone := tr.members[0].endpoint
	gone.lb, gone.Balancer = &lb{engine: tr.engine}, closedBalancer{}
	gone.Close()
	for range 20 {
		ctx := withCall(t.Context(), trialTarget, false)
		tr.pick(ctx)
		replica := callOf(ctx).current.Load().ticket.Replica()
		if got := tr.engine.describeLocked(replica); got != "b" {
			t.Fatalf("picked %s", got)
		}
	}
}

// Names of replicas are used again, so an endpoint that comes and goes for years takes no memory.
func TestEndpointThatComesAndGoes(t *testing.T) {
	tr := newTrial(t, local, &fakePicker{}, &fakePicker{})
	for range 100 {
		tr.engine.remove(tr.members[1].endpoint)
		tr.engine.setReady(tr.members, nil)
	}
	if got := len(tr.engine.members); got != 2 {
		t.Errorf("the table has %d rows for 2 endpoints", got)
	}
}

func TestRetriesAvoidTriedEndpoints(t *testing.T) {
	tr := newTrial(t, local, &fakePicker{}, &fakePicker{}, &fakePicker{})
	ctx := withCall(t.Context(), trialTarget, true)
	failed := balancer.DoneInfo{Err: status.Error(codes.Unavailable, ""), BytesSent: true, BytesReceived: true}
	tried := map[policy.ReplicaID]bool{}
	for range 3 {
		result := tr.pick(ctx)
		tried[callOf(ctx).current.Load().ticket.Replica()] = true
		result.Done(failed)
	}
	if len(tried) != 3 {
		t.Errorf("%d endpoints tried by 3 attempts", len(tried))
	}
	// All have been tried, so any of them is better than none.
	tr.pick(ctx).Done(failed)

	// What was not sent was not tried.
	ctx = withCall(t.Context(), trialTarget, true)
	tr.pick(ctx).Done(balancer.DoneInfo{})
	if got := callOf(ctx).tried.of(tr.engine); len(got) != 0 {
		t.Errorf("tried %v", got)
	}
	// Another engine has other replicas.
	other := newTrial(t, local, &fakePicker{})
	ctx = withCall(t.Context(), trialTarget, true)
	tr.pick(ctx).Done(failed)
	if got := callOf(ctx).tried.of(other.engine); len(got) != 0 {
		t.Errorf("tried %v of another engine", got)
	}
}

func TestReportsInTrailersCount(t *testing.T) {
	tr := newTrial(t, `{"probe": {"transport": "none"}, "health": "off"}`, &fakePicker{}, &fakePicker{})
	report := orcaReport(map[string]float64{carriedRIF: 7, carriedCapacity: 4, carriedCost: 0.001})
	tr.pick(t.Context()).Done(balancer.DoneInfo{
		BytesSent: true, BytesReceived: true, Trailer: metadata.Pairs(carriedKey, report),
	})
	tr.engine.mu.Lock()
	pool := tr.engine.policy.Snapshot(tr.engine.now()).Pool
	tr.engine.mu.Unlock()
	found := false
	for _, view := range pool {
		found = found || view.RIF == 7
	}
	if !found {
		t.Errorf("no report of 7 requests in flight in %+v", pool)
	}
}

func TestMetrics(t *testing.T) {
	tr := newTrial(t, `{"probe": {"transport": "none"}}`, &fakePicker{}, &fakePicker{})
	tr.engine.metrics.setLocality("zone-1")
	for range 5 {
		tr.pick(t.Context()).Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
	}
	if got := tr.counts.of("picks"); got != 5 {
		t.Errorf("picks %d", got)
	}
	labels := tr.counts.labelsOf("picks")
	if len(labels) != 3 || labels[0] != trialTarget || labels[1] == "" || labels[2] != "zone-1" {
		t.Errorf("labels %q", labels)
	}
	if got := tr.counts.of("endpoints"); got != 2 {
		t.Errorf("endpoints %d", got)
	}
	tr.engine.remove(tr.members[0].endpoint)
	if got := tr.counts.of("endpoints"); got != 1 {
		t.Errorf("endpoints %d after one left", got)
	}
}

// gRPC enables metrics by their names, so the documentation has all of them.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range []*estats.MetricDescriptor{
		picksMetric.Descriptor(), picksUnsentMetric.Descriptor(), probesSentMetric.Descriptor(),
		probesAnsweredMetric.Descriptor(), probesLostMetric.Descriptor(), probesUnsentMetric.Descriptor(),
		replicasMetric.Descriptor(), probeDurationMetric.Descriptor(),
	} {
		names := slices.Concat([]string{metric.Name}, metric.Labels, metric.OptionalLabels)
		for _, name := range names {
			if !regexp.MustCompile(`[ \n]` + regexp.QuoteMeta(name) + `[ ,:\n]`).Match(text) {
				t.Errorf("%s is not in doc.go", name)
			}
		}
	}
}

func TestLastPicksAreKept(t *testing.T) {
	tr := newTrial(t, `{"explain": 3, "health": "off", "probe": {"transport": "none"}}`, &fakePicker{}, &fakePicker{})
	channel := &Channel{target: trialTarget, engine: tr.engine}
	if picks := channel.Picks(); len(picks) != 0 {
		t.Errorf("picks before the first: %v", picks)
	}
	for range 5 {
		tr.pick(t.Context())
	}
	picks := channel.Picks()
	if len(picks) != 3 {
		t.Fatalf("%d picks kept, want 3", len(picks))
	}
	for i, pick := range picks {
		if pick.Method != "/test/Call" || pick.Reason == "" || pick.Considered != 2 || len(pick.Candidates) != 2 {
			t.Errorf("pick %+v", pick)
		}
		if i > 0 && pick.Time.Before(picks[i-1].Time) {
			t.Error("not the oldest first")
		}
		if pick.String() == "" {
			t.Error("no text")
		}
	}
	snapshot := channel.Snapshot()
	if len(snapshot.Endpoints) != 2 || snapshot.Policy != policyDefault || snapshot.String()[0] != '{' {
		t.Errorf("snapshot %v", snapshot)
	}
}

// A pick that finds no endpoint does not take the place of the oldest one.
func TestPicksWithoutAnEndpointAreNotKept(t *testing.T) {
	tr := newTrial(t, `{"explain": 2, "probe": {"transport": "none"}}`, &fakePicker{}, &fakePicker{})
	channel := &Channel{target: trialTarget, engine: tr.engine}
	for range 3 {
		tr.pick(t.Context())
	}
	before := channel.Picks()
	tr.engine.setReady(nil, endpointsOf(tr.members...))
	if _, err := tr.picker.Pick(balancer.PickInfo{Ctx: t.Context()}); err == nil {
		t.Fatal("picked")
	}
	if after := channel.Picks(); len(after) != 2 || !reflect.DeepEqual(after, before) {
		t.Errorf("picks %v, and then %v", before, after)
	}
}

// A choice allocates only what gRPC keeps: the attempt and its callback.
func TestPickAllocates(t *testing.T) {
	tr := newTrial(t, `{"probe": {"transport": "none"}}`, &fakePicker{}, &fakePicker{}, &fakePicker{})
	info := balancer.PickInfo{FullMethodName: "/test/Call", Ctx: t.Context()}
	allocations := testing.AllocsPerRun(1000, func() {
		result, err := tr.picker.Pick(info)
		if err != nil {
			t.Fatal(err)
		}
		result.Done(balancer.DoneInfo{BytesSent: true, BytesReceived: true})
	})
	// Two, and the callback of the fake child.
	if allocations > 3 && !raceEnabled {
		t.Errorf("%v allocations for each pick", allocations)
	}
}
