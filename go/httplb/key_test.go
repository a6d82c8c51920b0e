package httplb

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slackwater/slackwater/go/internal/vectors"
	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

// hosts is a base that answers every request, and notes where it went.
type hosts struct{ sentTo []string }

func (h *hosts) RoundTrip(request *http.Request) (*http.Response, error) {
	h.sentTo = append(h.sentTo, request.URL.Host)
	return &http.Response{
		StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: request,
	}, nil
}

func (h *hosts) take() []string {
	sentTo := h.sentTo
	h.sentTo = nil
	return sentTo
}

// keyed returns a transport over the fleet of the vectors, whose requests have the header x-user.
func keyed(t *testing.T, options ...Option) (*Transport, *hosts, []string, []vectors.KeyLine) {
	t.Helper()
	addresses, orders, err := vectors.ClientKeys()
	if err != nil {
		t.Fatal(err)
	}
	urls := make([]string, len(addresses))
	for i, address := range addresses {
		urls[i] = "http://" + address
	}
	// Agreement does not depend on the order in which replicas join.
	slices.Reverse(urls)
	base := &hosts{}
	options = append([]Option{
		WithBase(base), WithoutProbes(), WithKey(KeyFromHeader("x-user"), keys.DefaultSettings()),
	}, options...)
	return newTransport(t, URLs(urls...), options...), base, addresses, orders
}

func requestOf(t *testing.T, ctx context.Context, user string) *http.Request {
	t.Helper()
	request := newRequest(t, ctx, nil)
	if user != "" {
		request.Header.Set("X-User", user)
	}
	return request
}

func send(t *testing.T, transport *Transport, request *http.Request) {
	t.Helper()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestRequestsWithAKeyGoToTheHomeThatTheProxyHas(t *testing.T) {
	transport, base, addresses, orders := keyed(t)
	for _, order := range orders {
		for range 3 {
			send(t, transport, requestOf(t, t.Context(), order.Value))
		}
		home := addresses[order.Order[0]]
		if found := base.take(); !slices.Equal(found, []string{home, home, home}) {
			t.Errorf("%s: found %v, not %s", order.Value, found, home)
		}
	}
	if counted := transport.Snapshot().Counters.Picks.Of(policy.ReasonKeyHome); counted != uint64(3*len(orders)) {
		t.Errorf("%d picks of a home", counted)
	}
}

// In virtual time, so that all replicas are equally fast.
func TestRequestsWithoutAKeyGoAnywhere(t *testing.T) {
	synctest.Test(t, requestsWithoutAKeyGoAnywhere)
}

func requestsWithoutAKeyGoAnywhere(t *testing.T) {
	transport, base, _, _ := keyed(t)
	transport.options.base = roundTripper(func(request *http.Request) (*http.Response, error) {
		time.Sleep(time.Millisecond)
		return base.RoundTrip(request)
	})
	for range 60 {
		send(t, transport, requestOf(t, t.Context(), ""))
	}
	found := base.take()
	slices.Sort(found)
	if distinct := len(slices.Compact(found)); distinct < 5 {
		t.Errorf("only %d replicas have got a request", distinct)
	}
}

// In virtual time, so that all replicas are equally fast.
func TestRequestsBeyondTheBoundGoToTheSet(t *testing.T) {
	synctest.Test(t, requestsBeyondTheBoundGoToTheSet)
}

func requestsBeyondTheBoundGoToTheSet(t *testing.T) {
	transport, base, addresses, orders := keyed(t)
	order := orders[0]
	var open []*http.Response
	for range 40 {
		response, err := transport.RoundTrip(requestOf(t, t.Context(), order.Value))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, response)
	}
	// Bodies without content end at once, so these requests are over: all went home.
	found := base.take()
	slices.Sort(found)
	if found = slices.Compact(found); len(found) != 1 {
		t.Errorf("found %v", found)
	}
	for _, response := range open {
		_ = response.Body.Close()
	}
	// Requests that last fill the home, then its set.
	transport.options.base = roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := base.RoundTrip(request)
		response.Body, response.ContentLength = io.NopCloser(strings.NewReader("body")), 4
		return response, err
	})
	for range 12 {
		response, err := transport.RoundTrip(requestOf(t, t.Context(), order.Value))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
	}
	var expected []string
	for _, place := range order.Order[:4] {
		expected = append(expected, addresses[place])
	}
	found = base.take()
	if found[0] != expected[0] {
		t.Errorf("the first went to %s, not to %s", found[0], expected[0])
	}
	for _, address := range found {
		if !slices.Contains(expected, address) {
			t.Errorf("one went to %s, not to one of %v", address, expected)
		}
	}
	slices.Sort(found)
	if distinct := slices.Compact(found); len(distinct) < 4 {
		t.Errorf("only %v have got requests", distinct)
	}
}

func TestRetryGoesToTheNextReplicaOfItsKey(t *testing.T) {
	transport, base, addresses, orders := keyed(t)
	for _, order := range orders[:5] {
		ctx, _ := NewQuery(t.Context())
		for range 3 {
			send(t, transport, requestOf(t, ctx, order.Value))
		}
		var expected []string
		for _, place := range order.Order[:3] {
			expected = append(expected, addresses[place])
		}
		if found := base.take(); !slices.Equal(found, expected) {
			t.Errorf("%s: found %v, not %v", order.Value, found, expected)
		}
	}
}

func TestSecretsThatCanBeGuessed(t *testing.T) {
	for _, secret := range []string{"", "fifteen bytes o"} {
		transport, err := New(nil, WithoutProbes(), WithKeySecret([]byte(secret)))
		if err == nil {
			_ = transport.Close()
			t.Errorf("a secret of %d bytes is accepted", len(secret))
		}
	}
}

func TestSecretChangesHomes(t *testing.T) {
	transport, base, addresses, orders := keyed(t, WithKeySecret([]byte("sixteen bytes or")))
	moved := 0
	for _, order := range orders {
		send(t, transport, requestOf(t, t.Context(), order.Value))
		if base.take()[0] != addresses[order.Order[0]] {
			moved++
		}
	}
	if moved < len(orders)/2 {
		t.Errorf("only %d of %d homes are others", moved, len(orders))
	}
}

func TestRoundProbesTheHomesOfAKey(t *testing.T) {
	_, replicas := serveReplicas(t, nil, nil, nil, nil, nil, nil, nil, nil)
	settings := policy.DefaultSettings()
	settings.Prequal.SyncDeadline = patience
	transport := newTransport(t, replicas, WithPolicy("prequal_sync", settings),
		WithKey(func(*http.Request) string { return "user 1" }, keys.DefaultSettings()))
	for range 30 {
		if status, _ := fetch(t, transport); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	picks := transport.Snapshot().Counters.Picks
	// Two of the three that are probed are of the key. If all are idle, one of them is drawn.
	atHome := picks.Of(policy.ReasonKeyHome) + picks.Of(policy.ReasonKeySet)
	if atHome < 10 || atHome+picks.Of(policy.ReasonKeySpill) != 30 {
		t.Errorf("picks: %v", picks)
	}
}

func TestSettingsOfKeysAreChecked(t *testing.T) {
	settings := keys.DefaultSettings()
	settings.Set = 0
	_, err := New(nil, WithKey(KeyFromHeader("x-user"), settings))
	var setting *policy.SettingError
	if !errors.As(err, &setting) || setting.Field != "key.set" {
		t.Errorf("%v", err)
	}
}

func TestKeyOfTheHostHeader(t *testing.T) {
	request := newRequest(t, t.Context(), nil)
	request.Host = "tenant.example"
	if key := KeyFromHeader("host")(request); key != "tenant.example" {
		t.Errorf("found %q", key)
	}
}

func TestAddressOfAReplicaHasItsPort(t *testing.T) {
	for _, of := range []struct{ url, address string }{
		{"http://10.0.0.1", "10.0.0.1:80"},
		{"https://10.0.0.1", "10.0.0.1:443"},
		{"http://[2001:DB8:0::1]:8000", "[2001:db8::1]:8000"},
		{"http://search.example:81", "search.example:81"},
	} {
		r, err := parseReplica(Replica{URL: of.url}, probesNone, "/")
		if err != nil || r.identity != keys.NewIdentity(of.address, 0) {
			t.Errorf("%s: %v", of.url, err)
		}
	}
}
