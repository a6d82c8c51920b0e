package interop

import (
	"net/http"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/slackwater/slackwater/go/internal/await"
)

// TestRustServeOverGRPCServers has slackwater serve balance over gRPC servers that report their
// load by UDP, and drains one.
func TestRustServeOverGRPCServers(t *testing.T) {
	rustBinary(t)
	var replicas []*replica
	var addresses []string
	var answered []*atomic.Int64
	for _, takes := range threeTimes {
		r := startReplica(t, replicaOptions{takes: takes})
		replicas, addresses = append(replicas, r), append(addresses, r.address)
		answered = append(answered, r.answered)
	}
	proxy := startServe(t, "h2c", "udp", addresses)
	conn, err := grpc.NewClient("passthrough:///"+proxy.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := unary(testgrpc.NewTestServiceClient(conn))

	send(t, requests, request)
	avoided(t, answered)
	during(t, request, func() { proxy.reports(t, addresses) })

	drained := replicas[1]
	drained.reporter.Drain()
	during(t, request, func() { proxy.state(t, drained.address, "draining") })
	before := drained.answered.Load()
	send(t, requests/4, request)
	if after := drained.answered.Load(); after != before {
		t.Errorf("the draining replica got %d requests", after-before)
	}
	for _, r := range replicas {
		await.Until(t, r.address+" has no call in flight", func() bool { return r.reporter.Load().RIF() == 0 })
	}
}

// TestRustServeOverHTTPServers does the same over servers of net/http, with probes by UDP and by
// HTTP.
func TestRustServeOverHTTPServers(t *testing.T) {
	rustBinary(t)
	for _, probes := range []string{"udp", "http"} {
		t.Run(probes, func(t *testing.T) {
			var replicas []*httpReplica
			var addresses []string
			var answered []*atomic.Int64
			for _, takes := range threeTimes {
				r := startHTTPReplica(t, takes, false)
				replicas, addresses = append(replicas, r), append(addresses, r.address)
				answered = append(answered, r.answered)
			}
			proxy := startServe(t, "http1", probes, addresses)
			connections := &http.Transport{MaxIdleConnsPerHost: atOnce}
			defer connections.CloseIdleConnections()
			request := get(&http.Client{Transport: connections}, "http://"+proxy.address+"/")

			send(t, requests, request)
			avoided(t, answered)
			during(t, request, func() { proxy.reports(t, addresses) })

			drained := replicas[1]
			drained.load.Drain()
			during(t, request, func() { proxy.state(t, drained.address, "draining") })
			before := drained.answered.Load()
			send(t, requests/4, request)
			if after := drained.answered.Load(); after != before {
				t.Errorf("the draining replica got %d requests", after-before)
			}
		})
	}
}
