package httplb

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/slackwater/slackwater/go/policy"
)

// dead is the host of replicas that refuse connections.
const dead = "10.0.0.1"

// refusing is a base whose replicas refuse connections if their host is dead or if all do. It
// answers with the body of the request.
type refusing struct {
	all   bool
	hosts []string
}

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	r.hosts = append(r.hosts, request.URL.Hostname())
	body := ""
	if request.Body != nil {
		defer func() { _ = request.Body.Close() }()
	}
	if r.all || request.URL.Hostname() == dead {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	if request.Body != nil {
		read, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		body = string(read)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		Header: http.Header{}, Request: request,
	}, nil
}

func TestRefusedRequestGoesToAnotherReplica(t *testing.T) {
	for name, test := range map[string]struct {
		body  func() io.Reader
		again bool
	}{
		"without a body":      {func() io.Reader { return nil }, true},
		"with a body":         {func() io.Reader { return strings.NewReader("text") }, true},
		"with a body of once": {func() io.Reader { return io.MultiReader(strings.NewReader("text")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			base := &refusing{}
			transport := newTransport(t, URLs("http://"+dead, "http://10.0.0.2"), WithBase(base), WithoutProbes())
			refused := 0
			for n := range 20 {
				base.hosts = nil
				ctx := t.Context()
				if n%2 == 0 {
					ctx, _ = NewQuery(ctx)
				}
				request := newRequest(t, ctx, test.body())
				response, err := transport.RoundTrip(request)
				if base.hosts[0] == dead {
					refused++
				}
				switch {
				case base.hosts[0] == dead && !test.again:
					if err == nil || len(base.hosts) != 1 {
						t.Fatalf("%v at %v", err, base.hosts)
					}
					continue
				case base.hosts[0] == dead && len(base.hosts) != 2:
					t.Fatalf("hosts %v", base.hosts)
				}
				if err != nil {
					t.Fatal(err)
				}
				read, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if want := request.Body != nil; err != nil || (string(read) == "text") != want || response.Request != request {
					t.Fatalf("body %q, %v", read, err)
				}
			}
			if refused == 0 {
				t.Error("no request was refused")
			}
		})
	}
}

func TestRefusedRequestIsTriedTwiceAtMost(t *testing.T) {
	base := &refusing{all: true}
	transport := newTransport(t, URLs("http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3"),
		WithBase(base), WithoutProbes())
	ctx, query := NewQuery(context.Background())
	_, err := transport.RoundTrip(newRequest(t, ctx, nil))
	if !errors.Is(err, syscall.ECONNREFUSED) || len(base.hosts) != 2 || base.hosts[0] == base.hosts[1] {
		t.Errorf("%v at %v", err, base.hosts)
	}
	if attempts := query.Attempts(); len(attempts) != 2 || !attempts[0].HasEnded || !attempts[1].HasEnded {
		t.Errorf("attempts %+v", attempts)
	}
	base.hosts = nil
	alone := newTransport(t, URLs("http://10.0.0.1"), WithBase(base), WithoutProbes())
	_, err = alone.RoundTrip(newRequest(t, context.Background(), nil))
	if !errors.Is(err, syscall.ECONNREFUSED) || len(base.hosts) != 1 {
		t.Errorf("%v at %v, where there is no other replica", err, base.hosts)
	}
}

// startTLS starts a server over TLS, and returns it with a base that trusts all of them.
func startTLS(t *testing.T, http2 bool, handler http.Handler) (*httptest.Server, *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	base := NewBase()
	t.Cleanup(base.CloseIdleConnections)
	base.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	return s, base
}

// A replica that accepts connections and breaks off their handshakes cannot be connected to.
func TestRequestWhoseHandshakeFailsGoesToAnotherReplica(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Int64
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			broken.Add(1)
			_ = conn.Close()
		}
	})
	defer accepting.Wait()
	defer func() { _ = listener.Close() }()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	s, base := startTLS(t, false, ok)
	transport := newTransport(t, URLs(s.URL, "https://"+listener.Addr().String()), WithBase(base), WithoutProbes(),
		WithPolicy("random", policy.DefaultSettings()))
	for range 20 {
		if _, body := fetch(t, transport); body != "ok" {
			t.Errorf("body %q", body)
		}
	}
	if broken.Load() == 0 {
		t.Error("no handshake was broken off")
	}
}

func TestRequestThatAReplicaHasSeenIsNotSentAgain(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			abort := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			first, base := startTLS(t, http2, abort)
			second, _ := startTLS(t, http2, abort)
			transport := newTransport(t, URLs(first.URL, second.URL), WithBase(base), WithoutProbes())
			ctx, query := NewQuery(t.Context())
			if _, err := transport.RoundTrip(newRequest(t, ctx, strings.NewReader("text"))); err == nil {
				t.Error("no error")
			}
			attempts := query.Attempts()
			if len(attempts) != 1 || attempts[0].Outcome != policy.OutcomeBroken {
				t.Errorf("attempts %+v", attempts)
			}
		})
	}
}
