package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

func TestProbesOverHTTPAreAnswered(t *testing.T) {
	for name, key := range map[string]*Key{"without key": nil, "signed": testKey(t, 1)} {
		t.Run(name, func(t *testing.T) {
			handler := &Handler{Key: key, Report: func(hint []byte) policy.LoadReport {
				return policy.LoadReport{RIF: 3, LoadScale: uint16(len(hint)), Draining: true}
			}}
			server := httptest.NewServer(handler)
			defer server.Close()
			client := &HTTPClient{Key: key}
			defer client.CloseIdleConnections()
			got, err := client.Probe(t.Context(), server.URL+Path, []byte("user-17"))
			if want := (policy.LoadReport{RIF: 3, LoadScale: 7, Draining: true}); err != nil || got != want {
				t.Fatalf("%+v, %v", got, err)
			}
			if counts := handler.Counts(); counts != (HandlerCounts{Answered: 1}) {
				t.Fatalf("%+v", counts)
			}
			if counts := client.Counts(); counts != (HTTPCounts{Sent: 1, Answered: 1}) {
				t.Fatalf("%+v", counts)
			}
		})
	}
}

// A report counts when its head has come, however long the body takes.
func TestReportsDoNotWaitForABody(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderRIF, "3")
		w.Header().Set("Content-Length", "1")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client := &HTTPClient{}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	report, err := client.Probe(ctx, server.URL+Path, nil)
	if err != nil || report.RIF != 3 || ctx.Err() != nil {
		t.Errorf("%+v, %v, %v", report, err, ctx.Err())
	}
}

// endlessBody ends when the test says so.
type endlessBody struct{ closed chan struct{} }

func (b endlessBody) Read([]byte) (int, error) {
	<-b.closed
	return 0, io.EOF
}

func (b endlessBody) Close() error { return nil }

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func TestProbesReturnBeforeABodyIsRead(t *testing.T) {
	body := endlessBody{make(chan struct{})}
	client := &HTTPClient{Outstanding: 2, Client: &http.Client{Transport: transport(func(request *http.Request) (*http.Response, error) {
		head := http.Header{}
		head.Set(HeaderRIF, "3")
		return &http.Response{StatusCode: http.StatusOK, Header: head, ContentLength: -1, Body: body, Request: request}, nil
	})}}
	// Two bodies are waited for, and the third is not.
	for range 3 {
		report, err := client.Probe(t.Context(), "http://replica"+Path, nil)
		if err != nil || report.RIF != 3 {
			t.Errorf("%+v, %v", report, err)
		}
	}
	if draining := client.draining.Load(); draining != 2 {
		t.Errorf("%d bodies are read", draining)
	}
	close(body.closed)
	for client.draining.Load() > 0 {
		runtime.Gosched()
	}
}

func TestHandlersRefuseByStatus(t *testing.T) {
	handler := &Handler{Report: func([]byte) policy.LoadReport { return policy.LoadReport{} }}
	keyed := &Handler{Report: handler.Report, Key: testKey(t, 1)}
	for name, c := range map[string]struct {
		handler *Handler
		method  string
		hint    string
		status  int
	}{
		"a probe":              {handler, http.MethodGet, "", http.StatusOK},
		"a malformed hint":     {handler, http.MethodGet, "0", http.StatusBadRequest},
		"another method":       {handler, http.MethodPost, "", http.StatusMethodNotAllowed},
		"no signature":         {keyed, http.MethodGet, "", http.StatusForbidden},
		"no signature, a hint": {keyed, http.MethodGet, "0", http.StatusForbidden},
	} {
		request := httptest.NewRequest(c.method, Path, nil)
		if c.hint != "" {
			request.Header.Set(HeaderHint, c.hint)
		}
		response := httptest.NewRecorder()
		c.handler.ServeHTTP(response, request)
		if response.Code != c.status || response.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", name, response.Code, response.Header())
		}
		if hasReport := response.Header()[HeaderRIF] != nil; hasReport != (c.status == http.StatusOK) {
			t.Errorf("%s: a report: %v", name, hasReport)
		}
	}
	if counts := keyed.Counts(); counts != (HandlerCounts{Refused: 2}) {
		t.Errorf("%+v", counts)
	}
}

func TestAnswersThatAreNoReportsAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/none":
		case "/twice":
			w.Header()[HeaderRIF] = []string{"1", "2"}
		case "/unsigned":
			w.Header().Set(HeaderRIF, "1")
		case "/moved":
			http.Redirect(w, r, "/unsigned", http.StatusFound)
		case "/slow":
			<-r.Context().Done()
		case "/broken":
			panic(http.ErrAbortHandler)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	client, keyed := &HTTPClient{}, &HTTPClient{Key: testKey(t, 1)}
	defer client.CloseIdleConnections()
	defer keyed.CloseIdleConnections()
	probe := func(client *HTTPClient, path string) error {
		_, err := client.Probe(t.Context(), server.URL+path, nil)
		return err
	}
	if err := probe(client, "/none"); !errors.Is(err, ErrNoRIF) {
		t.Error(err)
	}
	if err := probe(client, "/twice"); !errors.Is(err, ErrRepeated) {
		t.Error(err)
	}
	if err := probe(keyed, "/unsigned"); !errors.Is(err, ErrAuthAbsent) {
		t.Error(err)
	}
	for path, status := range map[string]string{"/moved": "302", "/elsewhere": "404"} {
		if err := probe(client, path); err == nil || !strings.Contains(err.Error(), status) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.Probe(ctx, server.URL+"/slow", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := client.Probe(t.Context(), server.URL, make([]byte, HintBytesMax+1)); !errors.Is(err, ErrHintTooLong) {
		t.Error(err)
	}
	for range 2 {
		if err := probe(client, "/broken"); err == nil {
			t.Error("a server that breaks off answered")
		}
	}
	want := HTTPCounts{Sent: 7, BadReport: 2, BadStatus: 2, TimedOut: 1, Broken: 2, RefusedUnsupported: 1}
	if counts := client.Counts(); counts != want {
		t.Errorf("%+v", counts)
	}
	if counts := keyed.Counts(); counts != (HTTPCounts{Sent: 1, BadReport: 1}) {
		t.Errorf("%+v", counts)
	}
}

func TestHTTPProbesBeyondTheLimitAreRefused(t *testing.T) {
	arrived, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-leave
		w.Header().Set(HeaderRIF, "1")
	}))
	defer server.Close()
	client := &HTTPClient{Outstanding: 1}
	defer client.CloseIdleConnections()
	ended := make(chan error, 1)
	go func() {
		_, err := client.Probe(context.Background(), server.URL, nil)
		ended <- err
	}()
	<-arrived
	if _, err := client.Probe(t.Context(), server.URL, nil); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	close(leave)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if counts := client.Counts(); counts != (HTTPCounts{Sent: 1, Answered: 1, RefusedFull: 1}) {
		t.Errorf("%+v", counts)
	}
}

// Connecting goes on after its probe, so it is bounded by itself.
func TestHTTPProbesOfASilentHostOpenFewConnections(t *testing.T) {
	url := "http://" + silentHost(t) + Path
	client := &HTTPClient{}
	defer client.CloseIdleConnections()
	for range 2 * connectionsMax {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := client.Probe(ctx, url, nil); err == nil {
			t.Fatal("answered")
		}
		cancel()
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if dials := bytes.Count(stacks, []byte("dialConnFor(")); dials > connectionsMax {
		t.Errorf("%d connections are being opened", dials)
	}
}

// silentHost returns an address where no connection is accepted or refused: its backlog is full.
func silentHost(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(socket, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for {
		conn, err := net.DialTimeout("tcp", address, 50*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}
