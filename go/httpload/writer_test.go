package httpload

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/load"
)

// failingWriter returns an error of each kind of writing.
type failingWriter struct {
	http.ResponseWriter
	err error
}

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func (w failingWriter) FlushError() error { return w.err }

func (w failingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, w.err }

// countedOn returns what a request counts as, served by handler on w.
func countedOn(w http.ResponseWriter, handler http.HandlerFunc) load.Counts {
	replica := load.New(load.Options{})
	Handler(replica, handler).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return replica.Counts()
}

func TestErrorsOfWritingMeanThatTheClientLeft(t *testing.T) {
	gone := errors.New("connection reset by peer")
	write := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }
	flush := func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }
	for name, c := range map[string]struct {
		err     error
		handler http.HandlerFunc
		want    load.Counts
	}{
		"write":                    {gone, write, cancelled},
		"flush":                    {gone, flush, cancelled},
		"no error":                 {nil, write, succeeded},
		"the handler's own length": {http.ErrContentLength, write, succeeded},
		"the handler's own body":   {http.ErrBodyNotAllowed, write, succeeded},
	} {
		if got := countedOn(failingWriter{httptest.NewRecorder(), c.err}, c.handler); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAHijackThatFailsLeavesTheHeadOpen(t *testing.T) {
	for err, want := range map[error]load.Counts{errors.New("too late"): failed, nil: succeeded} {
		got := countedOn(failingWriter{httptest.NewRecorder(), err}, func(w http.ResponseWriter, _ *http.Request) {
			_, _, _ = w.(http.Hijacker).Hijack()
			w.WriteHeader(500)
		})
		if got != want {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

func TestClientsWithTheirWholeAnswerMayLeave(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		status int
		length string
		want   load.Counts
	}{
		"unknown length":   {http.MethodGet, 200, "", cancelled},
		"empty":            {http.MethodGet, 200, "0", succeeded},
		"not yet written":  {http.MethodGet, 200, "1", cancelled},
		"negative length":  {http.MethodGet, 200, "-1", cancelled},
		"malformed length": {http.MethodGet, 200, "x", cancelled},
		"HEAD":             {http.MethodHead, 200, "1", succeeded},
		"no content":       {http.MethodGet, http.StatusNoContent, "", succeeded},
		"not modified":     {http.MethodGet, http.StatusNotModified, "1", succeeded},
	} {
		ctx, leave := context.WithCancel(context.Background())
		got := counted(func(w http.ResponseWriter, _ *http.Request) {
			if c.length != "" {
				w.Header().Set("Content-Length", c.length)
			}
			w.WriteHeader(c.status)
			leave()
		}, httptest.NewRequestWithContext(ctx, c.method, "/", nil))
		if got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTheEndOfAHijackedConnectionIsTheHandlers(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	replica := load.New(load.Options{})
	handler := Handler(replica, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _, _ = w.(http.Hijacker).Hijack()
		leave()
	}))
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	handler.ServeHTTP(failingWriter{httptest.NewRecorder(), nil}, request)
	if counts := replica.Counts(); counts != cancelled {
		t.Errorf("%+v", counts)
	}
}

// io.Copy of a reader that fails at once has written nothing, so the handler answers with an error.
func TestAReaderThatFailsAtOnceLeavesTheHeadOpen(t *testing.T) {
	replica, url := start(t, func(w http.ResponseWriter, r *http.Request) {
		from := io.Reader(iotest.ErrReader(errors.New("no such blob")))
		if r.URL.Path == "/late" {
			from = io.MultiReader(strings.NewReader("some"), from)
		}
		if n, err := io.Copy(w, from); n == 0 && err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	if response, _ := get(t, url); response.StatusCode != http.StatusBadGateway {
		t.Errorf("status %s", response.Status)
	}
	await.Until(t, "a failure", func() bool { return replica.Counts() == load.Counts{Failed: 1} })
	if response, body := get(t, url+"/late"); response.StatusCode != http.StatusOK || body != "some" {
		t.Errorf("status %s, body %q", response.Status, body)
	}
	await.Until(t, "a success", func() bool { return replica.Counts() == load.Counts{Succeeded: 1, Failed: 1} })
}

// unwrapping is other middleware around this one's, which can only be unwrapped.
type unwrapping struct{ inner http.ResponseWriter }

func (w unwrapping) Header() http.Header         { return w.inner.Header() }
func (w unwrapping) Write(b []byte) (int, error) { return w.inner.Write(b) }
func (w unwrapping) WriteHeader(status int)      { w.inner.WriteHeader(status) }
func (w unwrapping) Unwrap() http.ResponseWriter { return w.inner }

func TestLatencyEndsWithAHijackThroughOtherMiddleware(t *testing.T) {
	replica := load.New(load.Options{})
	var hijacked time.Duration
	handler := Handler(replica, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		hijacked = replica.Report(nil).Latency
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(unwrapping{w}, r)
	}))
	defer server.Close()
	if response, err := http.Get(server.URL); err == nil {
		response.Body.Close()
	}
	await.Until(t, "an end", func() bool { return replica.Counts() == load.Counts{Succeeded: 1} })
	if report := replica.Report(nil); hijacked == 0 || report.Latency != hijacked {
		t.Errorf("latency %v after the hijack, %v at the end", hijacked, report.Latency)
	}
}
