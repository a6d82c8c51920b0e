package httplb_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/slackwater/slackwater/go/httplb"
	"github.com/slackwater/slackwater/go/httpload"
	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/load"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// serve starts a replica that counts its requests and answers probes at /prequal/probe.
func serve(handle http.HandlerFunc) *httptest.Server {
	return httptest.NewServer(httpload.Handler(load.New(load.Options{}), handle))
}

// A client of a service with two replicas.
func Example() {
	first, second := serve(hello), serve(hello)
	defer first.Close()
	defer second.Close()

	transport, err := httplb.New(httplb.URLs(first.URL, second.URL), httplb.WithHTTPProbes(""))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = transport.Close() }()

	client := &http.Client{Transport: transport}
	response, err := client.Get("http://search/query")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, string(body), err)
	// Output: 200 OK hello <nil>
}

// A caller that retries lets each attempt avoid the replicas of those before it.
func ExampleNewQuery() {
	broken := serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	sound := serve(hello)
	defer broken.Close()
	defer sound.Close()
	transport, err := httplb.New(httplb.URLs(broken.URL, sound.URL), httplb.WithHTTPProbes(""))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = transport.Close() }()
	client := &http.Client{Transport: transport}

	ctx, query := httplb.NewQuery(context.Background())
	for len(query.Attempts()) < 2 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://search/query", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		response, err := client.Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			fmt.Println(response.Status)
			return
		}
	}
	// Output: 200 OK
}

// Requests of one user go to the same replica, while it is not busy, and find its cache warm.
func ExampleWithKey() {
	first, second, third := serve(hello), serve(hello), serve(hello)
	defer first.Close()
	defer second.Close()
	defer third.Close()
	transport, err := httplb.New(httplb.URLs(first.URL, second.URL, third.URL),
		httplb.WithoutProbes(),
		httplb.WithKey(httplb.KeyFromHeader("x-user"), keys.DefaultSettings()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = transport.Close() }()
	client := &http.Client{Transport: transport}

	replicas := map[string]bool{}
	for range 5 {
		ctx, query := httplb.NewQuery(context.Background())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://search/query", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		request.Header.Set("X-User", "mary")
		response, err := client.Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		if _, err = io.Copy(io.Discard, response.Body); err != nil {
			fmt.Println(err)
		}
		_ = response.Body.Close()
		attempt := query.Attempts()[0]
		replicas[attempt.Replica] = true
		fmt.Println(attempt.Reason)
	}
	fmt.Println("replicas:", len(replicas))
	// Output:
	// key_home
	// key_home
	// key_home
	// key_home
	// key_home
	// replicas: 1
}

// The set of replicas may change at any time, and may be empty at first.
func ExampleTransport_SetReplicas() {
	transport, err := httplb.New(nil, httplb.WithHTTPProbes(""))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = transport.Close() }()
	client := &http.Client{Transport: transport}
	if _, err = client.Get("http://search/query"); err != nil {
		fmt.Println(err)
	}

	server := serve(hello)
	defer server.Close()
	if err := transport.SetReplicas(httplb.URLs(server.URL)); err != nil {
		fmt.Println(err)
		return
	}
	response, err := client.Get("http://search/query")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = response.Body.Close()
	for _, replica := range transport.Snapshot().Replicas {
		fmt.Println(replica.URL == server.URL, replica.InFlight)
	}
	// Output:
	// Get "http://search/query": httplb: no replicas: the set is empty
	// true 0
}
