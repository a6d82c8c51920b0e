package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/slackwater/slackwater/go/httpload"
	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/load"
	"github.com/slackwater/slackwater/go/probe"
)

// How long requests take at the usual replicas and at the slow one.
const (
	usualTime = 2 * time.Millisecond
	slowTime  = 60 * time.Millisecond
)

// Requests of a test, and how many of them are made at a time.
const (
	requests = 600
	atOnce   = 8
)

// send makes many requests, several at a time, and fails the test if one fails.
func send(t *testing.T, count int64, request func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	var made atomic.Int64
	var senders sync.WaitGroup
	for range atOnce {
		senders.Go(func() {
			for made.Add(1) <= count {
				if err := request(ctx); err != nil {
					t.Errorf("request: %v", err)
					return
				}
			}
		})
	}
	senders.Wait()
}

// during makes requests until check has returned, and waits for the last of them: a cancelled one
// could still arrive at a replica after its client has gone.
func during(t *testing.T, request func(ctx context.Context) error, check func()) {
	t.Helper()
	var checked atomic.Bool
	var senders sync.WaitGroup
	for range atOnce {
		senders.Go(func() {
			for !checked.Load() {
				ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
				err := request(ctx)
				cancel()
				if err != nil {
					t.Errorf("request: %v", err)
					return
				}
			}
		})
	}
	defer senders.Wait()
	defer checked.Store(true)
	check()
}

// unary makes a gRPC call.
func unary(client testgrpc.TestServiceClient) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{ResponseSize: 100})
		return err
	}
}

// get makes a request over HTTP.
func get(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", response.Status)
		}
		return nil
	}
}

// avoided checks that the slow replica, the first one, got far less than its share of the requests,
// and the others the rest.
func avoided(t *testing.T, answered []*atomic.Int64) {
	t.Helper()
	var counts []int64
	var total int64
	for _, n := range answered {
		counts = append(counts, n.Load())
		total += n.Load()
	}
	t.Logf("requests at the replicas, the slow one first: %v", counts)
	if counts[0]*6 >= total {
		t.Errorf("the slow replica got %d of %d requests; want less than a sixth", counts[0], total)
	}
	for i, count := range counts[1:] {
		if count*8 < total {
			t.Errorf("replica %d got %d of %d requests; want an eighth at least", i+1, count, total)
		}
	}
}

// httpReplica is a server of net/http.
type httpReplica struct {
	address  string
	load     *load.Load
	answered *atomic.Int64
}

// startHTTPReplica starts a server that takes some time for each request. It reports its load by
// HTTP and, at the same address, by UDP, unless it is plain.
func startHTTPReplica(t *testing.T, takes time.Duration, plain bool) *httpReplica {
	t.Helper()
	listener, socket := listenBoth(t)
	r := &httpReplica{
		address: listener.Addr().String(), load: load.New(load.Options{}), answered: new(atomic.Int64),
	}
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.answered.Add(1)
		select {
		case <-time.After(takes):
			_, _ = io.WriteString(w, "hello")
		case <-request.Context().Done():
		}
	})
	answering := make(chan struct{})
	if plain {
		close(answering)
		_ = socket.Close()
	} else {
		handler = httpload.Handler(r.load, handler)
		go func() {
			defer close(answering)
			responder := probe.Responder{Report: r.load.Report}
			_ = responder.Serve(context.WithoutCancel(t.Context()), socket)
		}()
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: await.Patience}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = socket.Close()
		<-answering
	})
	return r
}
