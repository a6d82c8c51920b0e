package httplb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/policy"
)

// respond is a base that gives this response to every request.
func respond(status int, header http.Header, body io.ReadCloser, length int64) roundTripper {
	return func(request *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: header.Clone(), Body: body, ContentLength: length, Request: request,
		}, nil
	}
}

// body is a body that ends with err after its content.
func body(content string, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(content), errorReader{err}))
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

func TestStatusDecidesTheOutcome(t *testing.T) {
	const success, failed, pushed = policy.OutcomeSuccess, policy.OutcomeFailed, policy.OutcomePushedBack
	retry := http.Header{"Retry-After": {"1"}}
	grpc := func(status string, pushback bool) http.Header {
		header := http.Header{"Grpc-Status": {status}}
		if pushback {
			header["Grpc-Retry-Pushback-Ms"] = []string{"7"}
		}
		return header
	}
	for _, c := range []struct {
		status int
		header http.Header
		want   policy.Outcome
	}{
		{200, nil, success}, {200, retry, success}, {301, nil, success}, {404, nil, success},
		{429, nil, success}, {429, retry, pushed}, {500, nil, failed}, {500, retry, failed},
		{502, nil, failed}, {503, nil, failed}, {503, retry, pushed}, {504, nil, failed},
		{200, grpc("0", true), success}, {200, grpc("1", false), success}, {200, grpc("2", true), failed},
		{200, grpc("4", false), failed}, {200, grpc("4", true), pushed}, {200, grpc("5", false), success},
		{200, grpc("8", true), pushed}, {200, grpc("8", false), failed}, {200, grpc("12", true), failed},
		{200, grpc("13", false), failed}, {200, grpc("14", true), pushed}, {200, grpc("14", false), failed},
		{200, grpc("15", false), failed}, {200, grpc("16", false), success}, {502, grpc("0", false), failed},
		{200, grpc("x", false), success}, {200, grpc("-1", false), success}, {200, grpc("999", false), success},
	} {
		transport, recorded := recording(t, respond(c.status, c.header, body("", io.EOF), -1))
		response, err := transport.RoundTrip(newRequest(t, context.Background(), nil))
		if err != nil {
			t.Fatal(err)
		}
		if heads, ends := recorded.outcomes(transport); !slices.Equal(heads, []policy.Outcome{c.want}) || len(ends) != 0 {
			t.Errorf("%d %v: heads %v, ends %v, want a head %v and no end", c.status, c.header, heads, ends, c.want)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{c.want}) {
			t.Errorf("%d %v: ends %v, want %v once", c.status, c.header, ends, c.want)
		}
	}
}

func TestBodyDecidesTheEnd(t *testing.T) {
	read := func(response *http.Response) { _, _ = io.Copy(io.Discard, response.Body) }
	readOne := func(response *http.Response) { _, _ = response.Body.Read(make([]byte, 1)) }
	nothing := func(*http.Response) {}
	for name, c := range map[string]struct {
		status int
		body   io.ReadCloser
		length int64
		use    func(*http.Response)
		want   policy.Outcome
	}{
		"whole":             {200, body("abc", io.EOF), -1, read, policy.OutcomeSuccess},
		"empty":             {200, http.NoBody, 0, nothing, policy.OutcomeSuccess},
		"nil":               {200, nil, 0, nothing, policy.OutcomeSuccess},
		"no content":        {204, body("", io.EOF), -1, nothing, policy.OutcomeSuccess},
		"announced length":  {200, body("a", errors.New("never read")), 1, readOne, policy.OutcomeSuccess},
		"closed early":      {200, body("abc", io.EOF), 3, readOne, policy.OutcomeDropped},
		"not read":          {200, body("abc", io.EOF), 3, nothing, policy.OutcomeDropped},
		"failed, not read":  {500, body("abc", io.EOF), 3, nothing, policy.OutcomeFailed},
		"broken":            {200, body("abc", io.ErrUnexpectedEOF), -1, read, policy.OutcomeBroken},
		"broken after 500":  {500, body("abc", io.ErrUnexpectedEOF), -1, read, policy.OutcomeBroken},
		"timed out in body": {200, body("abc", errTimeout{}), -1, read, policy.OutcomeTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			transport, recorded := recording(t, respond(c.status, nil, c.body, c.length))
			response, err := transport.RoundTrip(newRequest(t, context.Background(), nil))
			if err != nil {
				t.Fatal(err)
			}
			c.use(response)
			if response.Body != nil {
				_, _ = response.Body.Close(), response.Body.Close()
			}
			if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{c.want}) {
				t.Errorf("ends %v, want %v once", ends, c.want)
			}
		})
	}
}

type errTimeout struct{}

func (errTimeout) Error() string { return "timeout" }
func (errTimeout) Timeout() bool { return true }

// A client that cancels and never closes the body leaves nothing in flight.
func TestContextEndsARequestWhoseBodyNobodyCloses(t *testing.T) {
	for status, want := range map[int]policy.Outcome{200: policy.OutcomeDropped, 500: policy.OutcomeFailed} {
		waiting, _ := io.Pipe()
		transport, recorded := recording(t, respond(status, nil, waiting, -1))
		ctx, cancel := context.WithCancel(context.Background())
		response, err := transport.RoundTrip(newRequest(t, ctx, nil))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		ends := func() []policy.Outcome { _, ends := recorded.outcomes(transport); return ends }
		await(t, func() bool { return len(ends()) > 0 }, func() { t.Errorf("%d: no end", status) })
		_ = response.Body.Close()
		if ends := ends(); !slices.Equal(ends, []policy.Outcome{want}) {
			t.Errorf("%d: ends %v, want %v once", status, ends, want)
		}
	}
}

func TestTrailersDecideTheEnd(t *testing.T) {
	trailer := http.Header{}
	base := roundTripper(func(request *http.Request) (*http.Response, error) {
		ends := readFunc(func([]byte) (int, error) {
			trailer.Set("grpc-status", "14")
			return 0, io.EOF
		})
		return &http.Response{StatusCode: 200, Body: io.NopCloser(ends), ContentLength: -1, Trailer: trailer}, nil
	})
	transport, recorded := recording(t, base)
	response, err := transport.RoundTrip(newRequest(t, context.Background(), nil))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{policy.OutcomeFailed}) {
		t.Errorf("ends %v, want failed", ends)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// pastDeadline is a context whose deadline has passed, and which does not know it yet.
type pastDeadline struct{ context.Context }

func (pastDeadline) Deadline() (time.Time, bool) { return time.Now(), true }

func TestErrorDecidesTheOutcome(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancelExpired := context.WithTimeout(context.Background(), 0)
	defer cancelExpired()
	// Its own timer has not fired yet.
	late := pastDeadline{context.Background()}
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want policy.Outcome
	}{
		"refused":      {nil, fmt.Errorf("wrapped: %w", refused), policy.OutcomeNoConnection},
		"no such host": {nil, &net.DNSError{}, policy.OutcomeNoConnection},
		"reset":        {nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, policy.OutcomeBroken},
		"cut":          {nil, io.EOF, policy.OutcomeBroken},
		"timeout":      {nil, errTimeout{}, policy.OutcomeTimedOut},
		"no HTTP":      {nil, errors.New("malformed HTTP response"), policy.OutcomeBroken},
		"deadline":     {expired, context.DeadlineExceeded, policy.OutcomeTimedOut},
		"cut before":   {late, errors.New("net/http: request canceled"), policy.OutcomeTimedOut},
		"cancelled":    {cancelled, refused, policy.OutcomeDropped},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			if got := outcomeOfError(ctx, c.err); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
			transport, recorded := recording(t, roundTripper(func(*http.Request) (*http.Response, error) {
				return nil, c.err
			}))
			if c.ctx != nil {
				return // RoundTrip does not send a request whose context has ended
			}
			if _, err := transport.RoundTrip(newRequest(t, ctx, nil)); !errors.Is(err, c.err) {
				t.Errorf("the caller got %v", err)
			}
			if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{c.want}) {
				t.Errorf("ends %v, want %v", ends, c.want)
			}
		})
	}
}

func TestFailedRequestBodyIsNotTheReplicasFault(t *testing.T) {
	broken := errors.New("the caller's own")
	transport, recorded := recording(t, roundTripper(func(request *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, request.Body)
		return nil, err
	}))
	request := newRequest(t, context.Background(), body("abc", broken))
	if _, err := transport.RoundTrip(request); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{policy.OutcomeDropped}) {
		t.Errorf("ends %v, want dropped", ends)
	}
}

// A gateway may pass on what its clients sent. They must not make replicas look broken.
func TestMalformedRequestIsNotTheReplicasFault(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"method":      func(r *http.Request) { r.Method = "GE T" },
		"no header":   func(r *http.Request) { r.Header = nil },
		"header name": func(r *http.Request) { r.Header["x y"] = []string{"1"} },
		"empty name":  func(r *http.Request) { r.Header[""] = []string{"1"} },
		"value":       func(r *http.Request) { r.Header["X"] = []string{"1", "2\r\nY: 3"} },
	} {
		transport, recorded := recording(t, NewBase())
		request := newRequest(t, context.Background(), nil)
		change(request)
		if response, err := transport.RoundTrip(request); err == nil {
			t.Errorf("%s: status %s", name, response.Status)
		}
		if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{policy.OutcomeDropped}) {
			t.Errorf("%s: ends %v, want dropped", name, ends)
		}
	}
	request := newRequest(t, context.Background(), nil)
	request.Method, request.Header["X-Any_1"] = "", []string{"a\tb \xff ä"}
	if !isWellFormed(request) {
		t.Error("a good request is refused")
	}
}

// The base closes a body that still waits for content when the replica breaks off.
func TestBodyThatTheBaseClosesHasNotFailed(t *testing.T) {
	transport, recorded := recording(t, roundTripper(func(request *http.Request) (*http.Response, error) {
		_ = request.Body.Close()
		_, _ = io.Copy(io.Discard, request.Body) // io.ErrClosedPipe
		return nil, io.ErrUnexpectedEOF
	}))
	waiting, _ := io.Pipe()
	if _, err := transport.RoundTrip(newRequest(t, context.Background(), waiting)); err == nil {
		t.Error("no error")
	}
	if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{policy.OutcomeBroken}) {
		t.Errorf("ends %v, want broken", ends)
	}
}

func TestPanicOfTheBaseEndsTheRequest(t *testing.T) {
	transport, recorded := recording(t, roundTripper(func(*http.Request) (*http.Response, error) { panic("a bug") }))
	func() {
		defer func() { _ = recover() }()
		_, _ = transport.RoundTrip(newRequest(t, context.Background(), nil))
	}()
	if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{policy.OutcomeDropped}) {
		t.Errorf("ends %v, want dropped", ends)
	}
}

func TestCarriedReportIsTakenOut(t *testing.T) {
	// The request itself is still in flight, so the policy counts it.
	for value, want := range map[string]int{"3;4500;2000": 1, "3;;": 1, "nonsense": 0} {
		transport, recorded := recording(t,
			respond(200, http.Header{"X-Slackwater-Load": {value}}, http.NoBody, 0))
		response, err := transport.RoundTrip(newRequest(t, context.Background(), nil))
		if err != nil {
			t.Fatal(err)
		}
		if len(response.Header) != 0 {
			t.Errorf("header %v goes on", response.Header)
		}
		if len(recorded.carried) != want || want == 1 && recorded.carried[0].RIF != 4 {
			t.Errorf("%q: reports %+v, want %d", value, recorded.carried, want)
		}
	}
}

func TestSwitchedConnectionIsInFlightUntilItIsClosed(t *testing.T) {
	tunnel := struct {
		io.Reader
		io.Writer
		io.Closer
	}{strings.NewReader(""), new(bytes.Buffer), io.NopCloser(nil)}
	transport, recorded := recording(t, respond(101, nil, tunnel, 0))
	response, err := transport.RoundTrip(newRequest(t, context.Background(), nil))
	if err != nil {
		t.Fatal(err)
	}
	connection, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("%T cannot be written to", response.Body)
	}
	_, _ = io.Copy(connection, connection)
	if _, ends := recorded.outcomes(transport); len(ends) != 0 {
		t.Errorf("ends %v before it was closed", ends)
	}
	_ = connection.Close()
	if _, ends := recorded.outcomes(transport); !slices.Equal(ends, []policy.Outcome{policy.OutcomeSuccess}) {
		t.Errorf("ends %v, want success", ends)
	}
}
