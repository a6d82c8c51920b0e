package httplb

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
)

// A replica that refuses a request by its head never gets the body.
func TestExpectContinueWaitsForTheReplica(t *testing.T) {
	_, replicas := serveReplicas(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusExpectationFailed)
	})
	transport := newTransport(t, replicas, WithoutProbes())
	request := newRequest(t, context.Background(), readFunc(func([]byte) (int, error) {
		t.Error("the body was read")
		return 0, io.EOF
	}))
	request.Header.Set("Expect", "100-continue")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

// A reverse proxy in front passes on that its client has sent everything, and gets the answer.
func TestTunnelClosesForWritingOnly(t *testing.T) {
	_, replicas := serveReplicas(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		sent, err := io.ReadAll(buffer)
		_, _ = io.WriteString(conn, "got "+string(sent))
		if err != nil {
			t.Error(err)
		}
	})
	transport := newTransport(t, replicas, WithoutProbes())
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "service" },
	})
	defer proxy.Close()
	request, err := http.NewRequest(http.MethodGet, proxy.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}}
	base := NewBase()
	defer base.CloseIdleConnections()
	response, err := base.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	conn, ok := response.Body.(interface {
		io.ReadWriter
		CloseWrite() error
	})
	if !ok {
		t.Fatalf("status %s: %T is no connection", response.Status, response.Body)
	}
	_, _ = io.WriteString(conn, "all")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil || string(answer) != "got all" {
		t.Errorf("%q, %v", answer, err)
	}
	// The proxy closes its connection after it has passed on the answer.
	await(t, func() bool { return transport.Snapshot().InFlight == 0 }, func() { t.Error("still in flight") })
}
