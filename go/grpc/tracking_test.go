package slackwatergrpc

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/policy"
)

const retries = `{
	"loadBalancingConfig": [{"slackwater": {"policy": "random", "health": "off"}}],
	"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
	}}]
}`

// With the options, each of three attempts goes to another of three servers, of which two always
// fail. Without them, chance decides, and the three attempts often miss the good one.
func TestRetriesByGRPCGoElsewhere(t *testing.T) {
	fails := func(context.Context) error { return status.Error(codes.Unavailable, "out of order") }
	for _, tracked := range []bool{true, false} {
		good := serve(t, nil)
		servers := []*server{serve(t, fails), serve(t, fails), good}
		options := []grpc.DialOption{
			grpc.WithDefaultServiceConfig(retries),
		}
		if tracked {
			options = append(options, DialOptions()...)
		}
		c := dial(t, `{}`, servers, options...)
		c.connected(t, 3)
		_, failed := c.load(t, 1, 100, nil)
		if tracked && len(failed) > 0 {
			t.Errorf("with the options, calls failed: %v", failed)
		}
		if !tracked && len(failed) == 0 {
			t.Error("without the options, no call failed: the test shows nothing")
		}
		c.noneInFlight(t, servers...)
	}
}

// heads records when heads are handed to a policy.
type heads struct {
	policy.Policy
	heads, ends atomic.Int64
	// last is the outcome of the last end, and first that of the first one.
	first, last atomic.Int64
}

func (p *heads) HandleHead(now policy.Instant, ticket *policy.Ticket, outcome policy.Outcome) {
	p.heads.Add(1)
	p.Policy.HandleHead(now, ticket, outcome)
}

func (p *heads) HandleDone(now policy.Instant, ticket policy.Ticket, outcome policy.Outcome) {
	if p.ends.Add(1) == 1 {
		p.first.Store(int64(outcome))
	}
	p.last.Store(int64(outcome))
	p.Policy.HandleDone(now, ticket, outcome)
}

// watchHeads puts a recorder around the policy of a client.
func watchHeads(t *testing.T, c *client) *heads {
	t.Helper()
	e := c.channel(t).current()
	e.mu.Lock()
	defer e.mu.Unlock()
	watched := &heads{Policy: e.policy}
	e.policy = watched
	return watched
}

// The latency of a stream ends at its head, while the stream goes on.
func TestHeadOfAStreamEndsItsLatency(t *testing.T) {
	for _, tracked := range []bool{true, false} {
		var options []grpc.DialOption
		if tracked {
			options = DialOptions()
		}
		s := serve(t, nil)
		c := dial(t, `{"probe": {"transport": "none"}}`, []*server{s}, options...)
		c.connected(t, 1)
		watched := watchHeads(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil {
			t.Fatal(err)
		}
		if tracked {
			await.Until(t, "the head is handed in", func() bool { return watched.heads.Load() == 1 })
		} else if got := watched.heads.Load(); got != 0 {
			t.Errorf("%d heads without the options", got)
		}
		if got := watched.ends.Load(); got != 0 {
			t.Errorf("%d ends of a stream that goes on", got)
		}
		cancel()
		await.Until(t, "the end", func() bool { return watched.ends.Load() == 1 })
	}
}

// A late head, and one of a call without an attempt, change nothing.
func TestHeadsThatBelongToNothing(t *testing.T) {
	tr := newTrial(t, local, &fakePicker{})
	head := &stats.InHeader{Client: true, Header: metadata.MD{}}
	headHandler{}.HandleRPC(t.Context(), head)
	ctx := withCall(t.Context(), trialTarget, true)
	headHandler{}.HandleRPC(ctx, head)
	tr.pick(ctx)
	a := callOf(ctx).current.Load()
	tr.engine.mu.Lock()
	watched := &heads{Policy: tr.engine.policy}
	tr.engine.policy = watched
	tr.engine.mu.Unlock()
	headHandler{}.HandleRPC(ctx, &stats.Begin{})
	if got := watched.heads.Load(); got != 0 {
		t.Errorf("%d heads at the beginning", got)
	}
	a.end(policy.OutcomeSuccess)
	headHandler{}.HandleRPC(ctx, head)
	if got := watched.heads.Load(); got != 0 {
		t.Errorf("%d heads after the end", got)
	}
}

// A server that fails fast looks idle, so it gets most calls until health notices.
func TestServerThatFailsFast(t *testing.T) {
	for _, config := range []string{`{}`, `{"policy": "prequal"}`, `{"policy": "least_loaded"}`} {
		t.Run(config, func(t *testing.T) {
			failing := serve(t, func(context.Context) error { return status.Error(codes.Internal, "broken") })
			good := []*server{serve(t, after(3*time.Millisecond)), serve(t, after(3*time.Millisecond))}
			c := dial(t, config, append(good, failing))
			c.connected(t, 3)
			await.Until(t, "it is ejected", func() bool {
				c.load(t, 6, 100, nil)
				for _, endpoint := range c.channel(t).Snapshot().Endpoints {
					if endpoint.Address == failing.address {
						return endpoint.State == "ejected"
					}
				}
				return false
			})
			before := failing.calls.Load()
			c.load(t, 6, 500, nil)
			if got := failing.calls.Load() - before; got > 50 {
				t.Errorf("the ejected server got %d of 500 calls", got)
			}
			c.noneInFlight(t, append(good, failing)...)
		})
	}
}

// gRPC sends metadata that a handler has set as a head of its own also before a status of failure,
// so the head of a call with one response shows nothing.
func TestHeadOfAFailedCallIsNoSampleOfLatency(t *testing.T) {
	s := serve(t, func(ctx context.Context) error {
		if err := grpc.SetHeader(ctx, metadata.Pairs("request-id", "7")); err != nil {
			t.Error(err)
		}
		return status.Error(codes.Internal, "broken")
	})
	c := dial(t, `{"probe": {"transport": "none"}}`, []*server{s}, DialOptions()...)
	c.connected(t, 1)
	watched := watchHeads(t, c)
	if _, err := c.call(t.Context()); status.Code(err) != codes.Internal {
		t.Fatal(err)
	}
	if heads, ends := watched.heads.Load(), watched.ends.Load(); heads != 0 || ends != 1 {
		t.Errorf("%d heads and %d ends, want 0 and 1", heads, ends)
	}
}
