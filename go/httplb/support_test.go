package httplb

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/httpload"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/policy"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// TestMain fails if goroutines of a transport or of a client are left at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	deadline := time.Now().Add(patience)
	for left := leftGoroutines(); left != ""; left = leftGoroutines() {
		if time.Now().After(deadline) {
			_, _ = os.Stderr.WriteString("goroutines are left:\n" + left + "\n")
			os.Exit(1)
		}
		runtime.Gosched()
	}
	os.Exit(code)
}

func leftGoroutines() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var left []string
	for _, stack := range strings.Split(string(stacks), "\n\n")[1:] {
		if strings.Contains(stack, "slackwater") || strings.Contains(stack, "net/http.(*") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

// server is a replica on loopback that answers probes over HTTP.
type server struct {
	*httptest.Server
	load *load.Load
	hits atomic.Int64
}

func newServer(t testing.TB, handle http.HandlerFunc) *server {
	t.Helper()
	s := &server{load: load.New(load.Options{})}
	if handle == nil {
		handle = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }
	}
	counted := func(w http.ResponseWriter, r *http.Request) {
		s.hits.Add(1)
		handle(w, r)
	}
	s.Server = httptest.NewServer(httpload.Handler(s.load, http.HandlerFunc(counted)))
	t.Cleanup(s.Close)
	return s
}

// serveReplicas starts servers and returns their URLs.
func serveReplicas(t testing.TB, handlers ...http.HandlerFunc) ([]*server, []Replica) {
	t.Helper()
	servers := make([]*server, len(handlers))
	urls := make([]string, len(handlers))
	for i, handle := range handlers {
		servers[i] = newServer(t, handle)
		urls[i] = servers[i].URL
	}
	return servers, URLs(urls...)
}

// newTransport returns a transport that is closed with the test, and must then have nothing in
// flight.
func newTransport(t testing.TB, replicas []Replica, options ...Option) *Transport {
	t.Helper()
	transport, err := New(replicas, append([]Option{WithHTTPProbes(""), WithSeed(1)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
		if inFlight := transport.Snapshot().InFlight; inFlight != 0 {
			t.Errorf("%d in flight at the end", inFlight)
		}
	})
	return transport
}

// fetch makes a request and reads its response.
func fetch(t testing.TB, transport http.RoundTripper) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: transport, Timeout: patience}
	response, err := client.Get("http://service/path?q=1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(read)
}

// await waits until a condition holds, or fails by complaining.
func await(t testing.TB, holds func() bool, complain func()) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			complain()
			t.FailNow()
		}
	}
}

// pause answers after a while, unless the client leaves. It stands for work, so it is no wait for
// something to happen.
func pause(span time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(span):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "ok")
	}
}

func fail(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

func newRequest(t testing.TB, ctx context.Context, body io.Reader) *http.Request {
	t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://service/path", body)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// roundTripper is a base made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// endings records how requests ended.
type endings struct {
	policy.Policy
	heads, ends []policy.Outcome
	carried     []policy.LoadReport
}

func (e *endings) HandleHead(now policy.Instant, ticket *policy.Ticket, outcome policy.Outcome) {
	e.heads = append(e.heads, outcome)
	e.Policy.HandleHead(now, ticket, outcome)
}

func (e *endings) HandleDone(now policy.Instant, ticket policy.Ticket, outcome policy.Outcome) {
	e.ends = append(e.ends, outcome)
	e.Policy.HandleDone(now, ticket, outcome)
}

func (e *endings) Handle(now policy.Instant, event policy.Event, draw policy.Draw) {
	if event.Kind == policy.EventCarriedReport {
		e.carried = append(e.carried, *event.Load)
	}
	e.Policy.Handle(now, event, draw)
}

// recording returns a transport over one replica that records, with this base.
func recording(t testing.TB, base http.RoundTripper) (*Transport, *endings) {
	t.Helper()
	transport := newTransport(t, URLs("http://10.0.0.1:80"), WithBase(base), WithoutProbes(),
		WithPolicy("random", policy.DefaultSettings()))
	b := transport.balancer
	b.mu.Lock()
	defer b.mu.Unlock()
	recorded := &endings{Policy: b.policy}
	b.policy = recorded
	return transport, recorded
}

// outcomes returns what was recorded.
func (e *endings) outcomes(t *Transport) (heads, ends []policy.Outcome) {
	t.balancer.mu.Lock()
	defer t.balancer.mu.Unlock()
	return append(heads, e.heads...), append(ends, e.ends...)
}
