package httplb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/httpload"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/policy"
)

func TestRequestGoesToAReplicaUnchanged(t *testing.T) {
	seen := make(chan *http.Request, 1)
	_, replicas := serveReplicas(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		seen <- r
	})
	transport := newTransport(t, replicas)
	request := newRequest(t, context.Background(), strings.NewReader("content"))
	request.Header.Set("x-own", "1")
	request.Host = "named"
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	echoed, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	got := <-seen
	if got.Host != "named" || got.URL.Path != "/path" || got.Header.Get("x-own") != "1" || string(echoed) != "content" {
		t.Errorf("host %q, path %q, header %v, body %q", got.Host, got.URL.Path, got.Header, echoed)
	}
	if request.URL.Host != "service" || response.Request != request {
		t.Errorf("the request was changed to %v", request.URL)
	}
}

func TestHostIsThatOfTheURLIfTheRequestHasNone(t *testing.T) {
	_, replicas := serveReplicas(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) })
	if _, host := fetch(t, newTransport(t, replicas)); host != "service" {
		t.Errorf("host %q, want service", host)
	}
}

func TestWithoutReplicasThereIsAClearError(t *testing.T) {
	transport := newTransport(t, nil)
	closed := make(chan struct{})
	request := newRequest(t, context.Background(), closer{strings.NewReader("x"), closed})
	if _, err := transport.RoundTrip(request); !errors.Is(err, ErrNoReplicas) {
		t.Errorf("%v, want %v", err, ErrNoReplicas)
	}
	select {
	case <-closed:
	default:
		t.Error("the request's body was not closed")
	}
	_, replicas := serveReplicas(t, nil)
	if err := transport.SetReplicas(replicas); err != nil {
		t.Fatal(err)
	}
	if status, _ := fetch(t, transport); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if err := transport.SetReplicas(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(newRequest(t, context.Background(), nil)); !errors.Is(err, ErrNoReplicas) {
		t.Errorf("%v, want %v", err, ErrNoReplicas)
	}
}

type closer struct {
	io.Reader
	closed chan struct{}
}

func (c closer) Close() error { close(c.closed); return nil }

func TestWrongReplicasAndOptionsAreNamed(t *testing.T) {
	bad := policy.DefaultSettings()
	bad.Prequal.PoolCapacity = 1
	badHealth := health.DefaultSettings()
	badHealth.BackOff = 0
	for want, c := range map[string]struct {
		replicas []Replica
		options  []Option
	}{
		"the scheme must be http or https": {URLs("ftp://10.0.0.1"), nil},
		"there is no host":                 {URLs("http://"), nil},
		"only a scheme and a host":         {URLs("http://10.0.0.1/path"), nil},
		"is there twice":                   {URLs("http://10.0.0.1", "http://10.0.0.1"), nil},
		"need an IP address":               {URLs("http://name"), nil},
		"is not an IP address and a port":  {[]Replica{{URL: "http://name", Probe: "10.0.0.1"}}, nil},
		"is not a URL for probes":          {[]Replica{{URL: "http://name", Probe: "x"}}, []Option{WithHTTPProbes("")}},
		"does not begin with a slash":      {nil, []Option{WithHTTPProbes("x")}},
		"unknown policy \"best\"":          {nil, []Option{WithPolicy("best", policy.DefaultSettings())}},
		"prequal.pool_capacity":            {nil, []Option{WithPolicy("prequal", bad)}},
		"back_off must be":                 {nil, []Option{WithHealth(badHealth)}},
		"0 to 1024 picks":                  {nil, []Option{WithExplanations(1025)}},
		"cannot be the base of another":    {nil, []Option{WithBase(&Transport{})}},
		"invalid port":                     {URLs("http://10.0.0.1:port"), nil},
		"value out of range":               {URLs("http://10.0.0.1:70000"), nil},
	} {
		transport, err := New(c.replicas, c.options...)
		if err == nil {
			_ = transport.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "httplb: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// After an error nothing has changed.
	_, replicas := serveReplicas(t, nil)
	transport := newTransport(t, replicas)
	if err := transport.SetReplicas(append(URLs("http://10.0.0.1:1"), replicas[0], replicas[0])); err == nil {
		t.Error("a replica that is there twice was accepted")
	}
	if known := transport.Snapshot().Replicas; len(known) != 1 || known[0].URL != replicas[0].URL {
		t.Errorf("replicas %+v", known)
	}
}

func TestClosedTransportSendsNothing(t *testing.T) {
	transport, release, response := slowResponse(t)
	if err := errors.Join(transport.Close(), transport.Close()); err != nil {
		t.Error(err)
	}
	if _, err := transport.RoundTrip(newRequest(t, context.Background(), nil)); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want %v", err, ErrClosed)
	}
	// A request in flight continues.
	release()
	if content, err := io.ReadAll(response.Body); err != nil || string(content) != "ok" {
		t.Errorf("%q, %v", content, err)
	}
	_ = response.Body.Close()
}

// slowResponse returns a response whose body ends when release is called.
func slowResponse(t *testing.T) (_ *Transport, release func(), _ *http.Response) {
	t.Helper()
	released := make(chan struct{})
	_, replicas := serveReplicas(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-released
		_, _ = io.WriteString(w, "ok")
	})
	transport := newTransport(t, replicas)
	response, err := transport.RoundTrip(newRequest(t, context.Background(), nil))
	if err != nil {
		t.Fatal(err)
	}
	return transport, func() { close(released) }, response
}

func TestRequestIsInFlightUntilItsBodyEnds(t *testing.T) {
	transport, release, response := slowResponse(t)
	snapshot := transport.Snapshot()
	if snapshot.InFlight != 1 || snapshot.Replicas[0].InFlight != 1 {
		t.Errorf("in flight: %d, at the replica %d, want 1", snapshot.InFlight, snapshot.Replicas[0].InFlight)
	}
	release()
	_, _ = io.ReadAll(response.Body)
	if inFlight := transport.Snapshot().InFlight; inFlight != 0 {
		t.Errorf("in flight %d after the body's end", inFlight)
	}
	_ = response.Body.Close()
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	passed chan struct{}
}

func (e *expiring) Done() <-chan struct{} { return e.passed }

func (e *expiring) Err() error {
	select {
	case <-e.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestContextEndsARequest(t *testing.T) {
	ctx := &expiring{context.Background(), make(chan struct{})}
	stalled := func(_ http.ResponseWriter, r *http.Request) {
		close(ctx.passed)
		<-r.Context().Done()
	}
	_, replicas := serveReplicas(t, stalled)
	transport := newTransport(t, replicas)
	if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
	// One that has ended before is not sent.
	if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
	if picks := transport.Snapshot().Counters.Picks; picks.Total() != 1 {
		t.Errorf("%d picks, want 1", picks.Total())
	}
}

func TestAttemptsOfAQueryAvoidEachOther(t *testing.T) {
	servers, replicas := serveReplicas(t, fail, fail, fail)
	transport := newTransport(t, replicas)
	ctx, query := NewQuery(context.Background())
	for range servers {
		response, err := transport.RoundTrip(newRequest(t, ctx, nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	for i, s := range servers {
		if hits := s.hits.Load(); hits != 1 {
			t.Errorf("server %d got %d requests, want 1", i, hits)
		}
	}
	if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); !errors.Is(err, ErrAllTried) {
		t.Errorf("%v, want %v", err, ErrAllTried)
	}
	attempts := query.Attempts()
	if len(attempts) != len(servers) {
		t.Fatalf("%d attempts, want %d", len(attempts), len(servers))
	}
	for _, attempt := range attempts {
		if attempt.Replica == "" || !attempt.HasEnded || attempt.Outcome != policy.OutcomeFailed {
			t.Errorf("attempt %+v", attempt)
		}
	}
}

func TestReplicaThatReturnsHasBeenTriedAlready(t *testing.T) {
	replicas := URLs("http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3")
	transport := newTransport(t, replicas, WithoutProbes(),
		WithBase(respond(http.StatusInternalServerError, nil, http.NoBody, 0)))
	ctx, query := NewQuery(context.Background())
	tried := make(map[string]bool)
	for range replicas {
		if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); err != nil {
			t.Fatal(err)
		}
		for _, attempt := range query.Attempts() {
			tried[attempt.Replica] = true
		}
		for _, set := range [][]Replica{nil, replicas} {
			if err := transport.SetReplicas(set); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(tried) != len(replicas) {
		t.Errorf("%d attempts went to %d replicas", len(replicas), len(tried))
	}
	if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); !errors.Is(err, ErrAllTried) {
		t.Errorf("%v, want %v", err, ErrAllTried)
	}
}

func TestAttemptsThatBeginAtOnceDiffer(t *testing.T) {
	const replicas = 8
	urls := make([]string, replicas)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://10.0.0.%d", i)
	}
	transport := newTransport(t, URLs(urls...), WithoutProbes(),
		WithBase(respond(http.StatusOK, nil, http.NoBody, 0)))
	for range 200 {
		ctx, query := NewQuery(context.Background())
		var clients sync.WaitGroup
		for range replicas {
			clients.Go(func() {
				if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); err != nil {
					t.Error(err)
				}
			})
		}
		clients.Wait()
		tried := make(map[string]bool)
		for _, attempt := range query.Attempts() {
			tried[attempt.Replica] = true
		}
		if len(tried) != replicas {
			t.Fatalf("%d attempts went to %d replicas", replicas, len(tried))
		}
	}
}

// Each redirect that a client follows is answered by some replica, also if there is only one.
func TestRedirectsBeginAnew(t *testing.T) {
	_, replicas := serveReplicas(t, func(w http.ResponseWriter, r *http.Request) {
		if step := len(r.URL.Path); step < 4 {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}
	})
	transport := newTransport(t, replicas)
	ctx, query := NewQuery(context.Background())
	request := newRequest(t, ctx, nil)
	request.URL.Path = "/"
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if attempts := len(query.Attempts()); attempts != 4 {
		t.Errorf("%d attempts, want 4", attempts)
	}
	if _, err := transport.RoundTrip(response.Request); !errors.Is(err, ErrAllTried) {
		t.Errorf("a retry of the last: %v, want %v", err, ErrAllTried)
	}
}

func TestPicksAreExplained(t *testing.T) {
	_, replicas := serveReplicas(t, nil, nil, nil)
	transport := newTransport(t, replicas, WithExplanations(4), WithPolicy("prequal", policy.DefaultSettings()))
	if picks := transport.Explain(); len(picks) != 0 {
		t.Errorf("%d picks before the first", len(picks))
	}
	await(t, func() bool {
		fetch(t, transport)
		picks := transport.Explain()
		return len(picks) == 4 && len(picks[0].Candidates) > 1
	}, func() { t.Errorf("picks %+v", transport.Explain()) })
	picks := transport.Explain()
	for i, pick := range picks {
		if !strings.HasPrefix(pick.Replica, "http://127.0.0.1:") || pick.At.IsZero() {
			t.Errorf("pick %d: %+v", i, pick)
		}
		if i > 0 && !pick.At.Before(picks[i-1].At) {
			t.Errorf("pick %d was made at %v, and the one before it in the list at %v", i, pick.At, picks[i-1].At)
		}
	}
}

// Picks wait for the lock that a snapshot takes.
func TestSnapshotOfManyReplicasIsQuick(t *testing.T) {
	replicas := make([]Replica, 30_000)
	for i := range replicas {
		replicas[i].URL = fmt.Sprintf("http://10.0.%d.%d", i/256, i%256)
	}
	transport := newTransport(t, replicas, WithoutProbes())
	began := time.Now()
	snapshot := transport.Snapshot()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, replica := range snapshot.Replicas {
		if !replica.Health.Known || replica.Health.Value.Replica != replica.Replica || replica.URL == "" {
			t.Fatalf("replica %+v", replica)
		}
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	base := NewBase()
	base.Protocols = new(http.Protocols)
	base.Protocols.SetUnencryptedHTTP2(true)
	transport := newTransport(t, URLs(s.URL), WithBase(base))
	if _, proto := fetch(t, transport); proto != "HTTP/2.0" {
		t.Errorf("protocol %q", proto)
	}
}

func TestHTTP2OverTLS(t *testing.T) {
	protocol := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	s, base := startTLS(t, true, httpload.Handler(load.New(load.Options{}), protocol))
	transport := newTransport(t, URLs(s.URL), WithBase(base))
	if _, proto := fetch(t, transport); proto != "HTTP/2.0" {
		t.Errorf("protocol %q", proto)
	}
	// Probes trust the same certificates.
	await(t, func() bool { return transport.Snapshot().HTTPProbes.Answered > 0 }, func() {
		t.Errorf("probes: %+v", transport.Snapshot().HTTPProbes)
	})
}
