package slackwatergrpc

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/metadata"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/internal/vectors"
	"github.com/slackwater/slackwater/go/policy"
)

// keyedEngine returns an engine over the fleet of the vectors, whose calls have their key in the
// metadata x-user.
func keyedEngine(t *testing.T, config string) (*engine, []string, []vectors.KeyLine) {
	t.Helper()
	t.Setenv(vectors.FolderVariable, "../../vectors")
	addresses, orders, err := vectors.ClientKeys()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(parsed, newMetrics(newCounts(), ""), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	var ready []*endpointPicker
	for _, address := range addresses {
		ready = append(ready, &endpointPicker{endpoint: &endpoint{name: address}})
	}
	// Agreement does not depend on the order in which endpoints become READY.
	slices.Reverse(ready)
	e.setReady(ready, nil)
	return e, addresses, orders
}

func withUser(user string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "X-User", user, "x-user", "another")
}

func (e *engine) pickFor(t *testing.T, ctx context.Context) string {
	t.Helper()
	a, child, err := e.pick(balancer.PickInfo{Ctx: ctx}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.end(policy.OutcomeSuccess)
	return child.endpoint.describe()
}

func TestCallsWithAKeyGoToTheHomeThatTheProxyHas(t *testing.T) {
	e, addresses, orders := keyedEngine(t,
		`{"probe": {"transport": "none"}, "key": {"metadata": "x-user"}}`)
	for _, order := range orders {
		for range 3 {
			home := addresses[order.Order[0]]
			if found := e.pickFor(t, withUser(order.Value)); found != home {
				t.Errorf("%s: found %s, not %s", order.Value, found, home)
			}
		}
	}
}

// In virtual time, so that all endpoints are equally fast.
func TestCallsWithoutAKeyGoAnywhere(t *testing.T) {
	synctest.Test(t, callsWithoutAKeyGoAnywhere)
}

func callsWithoutAKeyGoAnywhere(t *testing.T) {
	e, _, _ := keyedEngine(t, `{"probe": {"transport": "none"}, "key": {"metadata": "x-user"}}`)
	for _, ctx := range []context.Context{context.Background(), withUser("")} {
		found := map[string]bool{}
		for range 60 {
			a, child, err := e.pick(balancer.PickInfo{Ctx: ctx}, nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			a.end(policy.OutcomeSuccess)
			found[child.endpoint.describe()] = true
		}
		if len(found) < 5 {
			t.Errorf("only %d endpoints have got a call", len(found))
		}
	}
}

// registerSecret registers a secret until the end of a test.
func registerSecret(t *testing.T, name string) {
	t.Helper()
	if err := RegisterKeySecret(name, []byte("sixteen bytes or")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = RegisterKeySecret(name, nil) })
}

func TestSecretsThatCanBeGuessed(t *testing.T) {
	for _, secret := range []string{"", "fifteen bytes o"} {
		if err := RegisterKeySecret("weak", []byte(secret)); err == nil {
			t.Errorf("a secret of %d bytes is accepted", len(secret))
		}
	}
	if _, known := secrets.Load("weak"); known {
		t.Error("it is registered")
	}
}

func TestSecretChangesHomes(t *testing.T) {
	registerSecret(t, "own")
	e, addresses, orders := keyedEngine(t,
		`{"probe": {"transport": "none"}, "key": {"metadata": "x-user", "secret": "own"}}`)
	moved := 0
	for _, order := range orders {
		if e.pickFor(t, withUser(order.Value)) != addresses[order.Order[0]] {
			moved++
		}
	}
	if moved < len(orders)/2 {
		t.Errorf("only %d of %d homes are others", moved, len(orders))
	}
}

// A channel whose secret is gone does not go on with keys that anyone can construct.
func TestSecretThatIsRemoved(t *testing.T) {
	registerSecret(t, "short-lived")
	parsed, err := parseConfig([]byte(`{"key": {"metadata": "x-user", "secret": "short-lived"}}`))
	if err := errors.Join(err, RegisterKeySecret("short-lived", nil)); err != nil {
		t.Fatal(err)
	}
	if e, err := newEngine(parsed, newMetrics(newCounts(), ""), true); err == nil {
		e.close()
		t.Error("an engine without its secret")
	}
}

// Calls of a channel with a key find the same server.
func TestCallsOfAKeyGoToOneServer(t *testing.T) {
	var servers []*server
	for range 5 {
		servers = append(servers, serve(t, nil))
	}
	// A probe that is answered during a call may count it when it is over, so there are none here.
	c := dial(t, `{"probe": {"transport": "none"}, "key": {"metadata": "x-user"}}`, servers)
	await.Until(t, "all servers are connected", func() bool {
		if _, err := c.call(context.Background()); err != nil {
			t.Fatal(err)
		}
		snapshot := Channels()
		return slices.ContainsFunc(snapshot, func(channel *Channel) bool {
			return channel.Target() == c.target && len(channel.Snapshot().Endpoints) == len(servers)
		})
	})
	homes := map[string]bool{}
	for _, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		home, err := c.call(withUser(user))
		if err != nil {
			t.Fatal(err)
		}
		homes[home] = true
		for range 5 {
			if found, err := c.call(withUser(user)); err != nil || found != home {
				t.Errorf("%s: found %s, not %s (%v)", user, found, home, err)
			}
		}
	}
	if len(homes) < 2 {
		t.Errorf("all users have the home %v", homes)
	}
}

// A resolver may order the addresses of an endpoint anew.
func TestEndpointWithAnotherFirstAddressHasItsName(t *testing.T) {
	config := `{"probe": {"transport": "none"}, "key": {"metadata": "x-user"}}`
	e, _, _ := keyedEngine(t, config)
	var ready []*endpointPicker
	for endpoint := range e.fleet {
		endpoint.mu.Lock()
		endpoint.name = "10.9.9." + endpoint.name
		endpoint.mu.Unlock()
		ready = append(ready, &endpointPicker{endpoint: endpoint})
	}
	e.setReady(ready, nil)
	parsed, err := parseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := newEngine(parsed, newMetrics(newCounts(), ""), true)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.close()
	fresh.setReady(ready, nil)
	for user := range 50 {
		ctx := withUser(strconv.Itoa(user))
		if one, other := e.pickFor(t, ctx), fresh.pickFor(t, ctx); one != other {
			t.Errorf("user %d: %s and %s", user, one, other)
		}
	}
}
