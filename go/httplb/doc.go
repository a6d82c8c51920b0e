// Package httplb balances the requests of an HTTP client over the replicas of a service.
//
// A [Transport] is an [http.RoundTripper] for a set of replicas:
//
//	transport, err := httplb.New(httplb.URLs("http://10.0.0.7:8000", "http://10.0.0.8:8000"))
//	if err != nil { … }
//	defer transport.Close()
//	client := &http.Client{Transport: transport}
//	response, err := client.Get("http://search/query")
//
// The host of a request's URL names the service. The transport replaces it, and the scheme, by
// those of the replica that it picks. The Host header stays that of the request. That holds for
// redirects that the client follows, too, whatever host they name: if replicas redirect to other
// sites, set [http.Client.CheckRedirect].
//
// # How it picks
//
// The default policy sends each request to the replica where it is expected to be answered first.
// The transport learns the load of the replicas in three ways: it probes them over UDP or HTTP, off
// the path of requests; it reads the header x-slackwater-load of responses; and it measures its own
// requests. Replicas that answer probes use package httpload, or run behind slackwater agent.
// Replicas that do not are balanced by what the transport measures; [Transport.Snapshot] shows them
// as unprobed.
//
// Probes go over UDP unless [WithHTTPProbes] is given. The handler of package httpload answers
// those over HTTP; those over UDP need a [probe.Responder] as well.
//
// Around the policy is package health: replicas that fail more often than the others, or that are
// new, get fewer requests. [WithHealth] configures it.
//
// With [WithKey], requests about the same thing go to the same replicas, for the sake of their
// caches: see package keys.
//
// # How a request ends
//
// A request is in flight until its response's body is read to its end, fails or is closed, or until
// its context ends. So close every body, as net/http requires. Latency ends when the inner
// transport returns the head.
//
//   - A status of 500 or more is a failure, as is a gRPC status that blames the server. An answer
//     with another status is a good answer.
//   - Status 429 or 503 with the header retry-after is pushback, as is a gRPC status with
//     grpc-retry-pushback-ms. It shows load, and is not a failure.
//   - An error of the inner transport is a failure: no connection, timed out, or broken. A deadline
//     of the request's context counts as timed out; if the context is cancelled, the request shows
//     nothing about the replica.
//
// # What it leaves to others
//
// The transport sends each request once. Only if a replica cannot be connected to, it tries another
// one. A layer above may retry or hedge requests; with [NewQuery] its attempts go to different
// replicas. Connections, HTTP/2 and TLS are those of the inner transport: see [WithBase] and
// [NewBase]. For TLS to replicas that are addresses, set the server name in its TLS configuration.
package httplb
