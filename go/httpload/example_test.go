package httpload_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slackwater/slackwater/go/httpload"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/probe"
)

func ExampleHandler() {
	replica := load.New(load.Options{CPU: load.ProcessCPU})
	application := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	server := httptest.NewServer(httpload.Handler(replica, application))
	defer server.Close()

	client := &probe.HTTPClient{}
	defer client.CloseIdleConnections()
	report, err := client.Probe(context.Background(), server.URL+probe.Path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("in flight:", report.RIF, "draining:", report.Draining)
	// Output: in flight: 0 draining: false
}

func ExampleShutdown() {
	replica := load.New(load.Options{})
	server := &http.Server{Handler: httpload.Handler(replica, http.NotFoundHandler())}

	// On SIGTERM: two seconds in which clients notice, then ten for requests that run.
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Millisecond)
	defer cancel()
	if err := httpload.Shutdown(ctx, server, replica, 2*time.Millisecond); err != nil {
		fmt.Println("requests were cut off:", err)
	}
	fmt.Println("draining:", replica.Draining())
	// Output: draining: true
}
