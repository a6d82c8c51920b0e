package httpload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// start serves with handler until the test's end, and returns the replica and its address.
func start(t testing.TB, handler http.HandlerFunc, options ...Option) (*load.Load, string) {
	t.Helper()
	replica := load.New(load.Options{})
	server := httptest.NewUnstartedServer(Handler(replica, handler, options...))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = nil
	server.Start()
	t.Cleanup(server.Close)
	return replica, server.URL
}

func get(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// counted returns what one request to handler counts as, without a socket.
func counted(handler http.HandlerFunc, request *http.Request) load.Counts {
	replica := load.New(load.Options{})
	func() {
		defer func() { _ = recover() }()
		Handler(replica, handler).ServeHTTP(httptest.NewRecorder(), request)
	}()
	return replica.Counts()
}

var (
	succeeded = load.Counts{Succeeded: 1}
	failed    = load.Counts{Failed: 1}
	cancelled = load.Counts{Cancelled: 1}
)

func TestResponsesDecideHowRequestsEnd(t *testing.T) {
	status := func(status int, fields ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(fields); i += 2 {
				w.Header().Set(fields[i], fields[i+1])
			}
			w.WriteHeader(status)
		}
	}
	trailer := func(prefix, code string, pushback bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a message")
			w.Header()[prefix+"Grpc-Status"] = []string{code}
			if pushback {
				w.Header()[prefix+"Grpc-Retry-Pushback-Ms"] = []string{"1000"}
			}
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    load.Counts
	}{
		"nothing written":            {func(http.ResponseWriter, *http.Request) {}, succeeded},
		"200":                        {status(200), succeeded},
		"404":                        {status(404), succeeded},
		"500":                        {status(500), failed},
		"503":                        {status(503), failed},
		"503 with retry-after":       {status(503, "Retry-After", "1"), cancelled},
		"429 with retry-after":       {status(429, "Retry-After", "1"), cancelled},
		"429":                        {status(429), succeeded},
		"500 with retry-after":       {status(500, "Retry-After", "1"), failed},
		"gRPC head":                  {status(200, "Grpc-Status", "13"), failed},
		"gRPC head, of the caller":   {status(200, "Grpc-Status", "5"), succeeded},
		"gRPC head with pushback":    {status(200, "Grpc-Status", "14", "Grpc-Retry-Pushback-Ms", "-1"), cancelled},
		"gRPC trailer":               {trailer("", "2", false), failed},
		"gRPC trailer, prefixed":     {trailer(http.TrailerPrefix, "4", false), failed},
		"gRPC trailer with pushback": {trailer(http.TrailerPrefix, "8", true), cancelled},
		"gRPC trailer, success":      {trailer("", "0", false), succeeded},
		"internal with pushback":     {trailer("", "13", true), failed},
		"100 before the head":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(500) }, failed},
		"panic":                      {func(http.ResponseWriter, *http.Request) { panic("a bug") }, failed},
		"panic after the head":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("a bug") }, failed},
		"abort":                      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, failed},
		"shed":                       {func(w http.ResponseWriter, r *http.Request) { probe.WriteShed(w, r, probe.ShedFull) }, cancelled},
	} {
		if got := counted(c.handler, httptest.NewRequest(http.MethodGet, "/", nil)); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRequestsOfClientsThatLeftAreCancelled(t *testing.T) {
	left, leave := context.WithCancel(context.Background())
	leave()
	request := httptest.NewRequestWithContext(left, http.MethodGet, "/", nil)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    load.Counts
	}{
		"before the head":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, cancelled},
		"nothing written":  {func(http.ResponseWriter, *http.Request) {}, cancelled},
		"abort":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, cancelled},
		"a panic is a bug": {func(http.ResponseWriter, *http.Request) { panic("a bug") }, failed},
	} {
		if got := counted(c.handler, request); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A client that has its whole answer may leave at once.
	for length, want := range map[string]load.Counts{"5": succeeded, "": cancelled, "6": cancelled} {
		ctx, leave := context.WithCancel(context.Background())
		got := counted(func(w http.ResponseWriter, _ *http.Request) {
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			_, _ = w.Write([]byte("hello"))
			leave()
		}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if got != want {
			t.Errorf("length %q: %+v", length, got)
		}
	}
}

func TestPanicsAreHandedOn(t *testing.T) {
	for _, reason := range []any{"a bug", http.ErrAbortHandler, []int{1}} {
		replica := load.New(load.Options{})
		handler := Handler(replica, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(reason) }))
		func() {
			defer func() {
				if got := recover(); got == nil {
					t.Errorf("%v was swallowed", reason)
				}
			}()
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		if replica.RIF() != 0 {
			t.Errorf("%v: %d in flight", reason, replica.RIF())
		}
	}
}

func TestLatencyEndsWithTheHead(t *testing.T) {
	for name, head := range map[string]func(http.ResponseWriter){
		"WriteHeader": func(w http.ResponseWriter) { w.WriteHeader(200) },
		"Write":       func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) },
		"WriteString": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") },
		"Flush":       func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"controller":  func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"ReadFrom":    func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) },
		"not 103":     func(w http.ResponseWriter) { w.WriteHeader(103); time.Sleep(time.Millisecond); w.WriteHeader(200) },
	} {
		synctest.Test(t, func(t *testing.T) {
			replica := load.New(load.Options{})
			want := 5 * time.Millisecond
			handler := Handler(replica, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(want)
				head(w)
				time.Sleep(time.Second / 2)
				if replica.RIF() != 1 {
					t.Errorf("%s: %d in flight before the end", name, replica.RIF())
				}
			}))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			if name == "not 103" {
				want += time.Millisecond
			}
			if report := replica.Report(nil); report.Latency != want || report.RIF != 0 {
				t.Errorf("%s: %+v", name, report)
			}
		})
	}
}

func TestProbesAreAnsweredAndNotCounted(t *testing.T) {
	hold, arrived := make(chan struct{}), make(chan struct{})
	replica, url := start(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-hold
	})
	ended := make(chan error, 1)
	go func() {
		response, err := http.Get(url)
		if err == nil {
			err = response.Body.Close()
		}
		ended <- err
	}()
	<-arrived
	client := &probe.HTTPClient{}
	defer client.CloseIdleConnections()
	report, err := client.Probe(t.Context(), url+probe.Path, nil)
	if err != nil || report.RIF != 1 || report.Draining || !report.Incarnation.Known {
		t.Errorf("%+v, %v", report, err)
	}
	replica.Drain()
	if report, err := client.Probe(t.Context(), url+probe.Path, nil); err != nil || !report.Draining {
		t.Errorf("%+v, %v", report, err)
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	await.Until(t, "count", func() bool { return replica.Counts() == load.Counts{Succeeded: 1} })
}

func TestOnlyGETOfTheExactPathIsAProbe(t *testing.T) {
	replica := load.New(load.Options{})
	application := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) })
	for _, c := range []struct {
		options []Option
		method  string
		target  string
		isProbe bool
	}{
		{nil, "GET", "/prequal/probe", true},
		{nil, "GET", "/prequal/probe?a=b", true},
		{nil, "HEAD", "/prequal/probe", false},
		{nil, "POST", "/prequal/probe", false},
		{nil, "GET", "/prequal%2Fprobe", false},
		{nil, "GET", "/prequal/probe/", false},
		{[]Option{WithProbePath("/mine")}, "GET", "/prequal/probe", false},
		{[]Option{WithProbePath("/mine")}, "GET", "/mine", true},
		{[]Option{WithProbePath("")}, "GET", "/prequal/probe", false},
		{[]Option{WithProbePath("")}, "GET", "http://replica", false},
	} {
		response := httptest.NewRecorder()
		Handler(replica, application, c.options...).ServeHTTP(response, httptest.NewRequest(c.method, c.target, nil))
		if (response.Code != 299) != c.isProbe || (response.Header()[probe.HeaderRIF] != nil) != c.isProbe {
			t.Errorf("%s %s: %d", c.method, c.target, response.Code)
		}
	}
}

func TestAKeyIsAskedFor(t *testing.T) {
	key, err := probe.NewKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	_, url := start(t, func(http.ResponseWriter, *http.Request) {}, WithKey(key))
	if response, _ := get(t, url+probe.Path); response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", response.StatusCode)
	}
	client := &probe.HTTPClient{Key: key}
	defer client.CloseIdleConnections()
	if _, err := client.Probe(t.Context(), url+probe.Path, []byte("hint")); err != nil {
		t.Error(err)
	}
}

func TestResponsesCarryTheLoadIfConfigured(t *testing.T) {
	application := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/shed":
			probe.WriteShed(w, r, probe.ShedFull)
		case "/write":
			_, _ = io.WriteString(w, "x")
		}
	}
	_, url := start(t, application, WithCarriedReports())
	for path, carries := range map[string]bool{"/": true, "/write": true, "/shed": false, probe.Path: false} {
		response, _ := get(t, url+path)
		report, ok, err := probe.TakeCarried(response.Header)
		if ok != carries || err != nil || report != (policy.LoadReport{}) {
			t.Errorf("%s: %+v, %v, %v", path, report, ok, err)
		}
	}
	_, url = start(t, application)
	if response, _ := get(t, url); response.Header[probe.HeaderLoad] != nil {
		t.Error("a load without being asked")
	}
}

func TestWritersOfferWhatTheServerOffers(t *testing.T) {
	check := func(w http.ResponseWriter, flushes, hijacks bool) {
		t.Helper()
		_, outer := wrap(w)
		_, canFlush := outer.(http.Flusher)
		_, canHijack := outer.(http.Hijacker)
		if canFlush != flushes || canHijack != hijacks {
			t.Errorf("%T: %v, %v", w, canFlush, canHijack)
		}
	}
	type plain struct{ http.ResponseWriter }
	recorder := httptest.NewRecorder()
	check(plain{recorder}, false, false)
	check(recorder, true, false)
	check(struct {
		http.ResponseWriter
		http.Hijacker
	}{recorder, nil}, false, true)
	check(struct {
		http.ResponseWriter
		http.Flusher
		http.Hijacker
	}{recorder, recorder, nil}, true, true)
}

func TestAServerThatCannotFlushSaysSo(t *testing.T) {
	replica := load.New(load.Options{})
	handler := Handler(replica, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("flushed: %v", err)
		}
		w.WriteHeader(500)
		if n, err := io.Copy(w, strings.NewReader("hello")); n != 5 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}))
	plain := struct{ http.ResponseWriter }{httptest.NewRecorder()}
	handler.ServeHTTP(plain, httptest.NewRequest(http.MethodGet, "/", nil))
	if counts := replica.Counts(); counts != failed {
		t.Errorf("the head is open after that: %+v", counts)
	}
}

func TestHijackedConnectionsCountUntilTheHandlerReturns(t *testing.T) {
	hold := make(chan struct{})
	for name, hijack := range map[string]func(http.ResponseWriter) error{
		"Hijacker": func(w http.ResponseWriter) error {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
				<-hold
				err = errors.Join(err, conn.Close())
			}
			return err
		},
		"controller": func(w http.ResponseWriter) error {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
				<-hold
				err = errors.Join(err, conn.Close())
			}
			return err
		},
	} {
		replica, url := start(t, func(w http.ResponseWriter, _ *http.Request) {
			if err := hijack(w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if _, body := get(t, url); body != "hi" || replica.RIF() != 1 {
			t.Errorf("%s: %q, %d in flight", name, body, replica.RIF())
		}
		hold <- struct{}{}
		await.Until(t, name, func() bool { return replica.RIF() == 0 })
		if counts := replica.Counts(); counts != succeeded {
			t.Errorf("%s: %+v", name, counts)
		}
	}
}

func TestAClientThatLeavesAStreamCancelsIt(t *testing.T) {
	replica, url := start(t, func(w http.ResponseWriter, r *http.Request) {
		controller := http.NewResponseController(w)
		for controller.Flush() == nil {
			if _, err := io.WriteString(w, "more\n"); err != nil {
				return
			}
		}
	})
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	await.Until(t, "count", func() bool { return replica.Counts() == cancelled })
}

func TestShutdownAnnouncesItselfFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replica := load.New(load.Options{})
		begun := time.Now()
		go func() {
			time.Sleep(time.Second - 1)
			if !replica.Draining() {
				t.Error("it does not drain")
			}
		}()
		if err := Shutdown(t.Context(), &http.Server{}, replica, time.Second); err != nil || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun = time.Now()
		_ = Shutdown(ctx, &http.Server{}, replica, time.Hour)
		if time.Since(begun) != 0 {
			t.Errorf("after %v", time.Since(begun))
		}
	})
}

// discard is a response writer that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func BenchmarkHandler(b *testing.B) {
	hello := []byte("hello")
	application := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(hello) })
	replica := load.New(load.Options{})
	for name, handler := range map[string]http.Handler{
		"bare":    application,
		"counted": Handler(replica, application),
		"carried": Handler(replica, application, WithCarriedReports()),
	} {
		b.Run(name, func(b *testing.B) {
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			writer := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(writer, request)
			}
		})
	}
}
