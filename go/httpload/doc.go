// Package httpload makes a [net/http] server a replica: it counts the server's requests in flight,
// measures their latency, and answers probes.
//
// [Handler] wraps the application's handler. Put it outside of everything that makes requests wait
// in the server, such as a limit of concurrency, so that waiting requests count as in flight. It
// works for HTTP/1.1 and HTTP/2, and for grpc-go's server where that runs as an http.Handler.
//
// To reject a request that has not been started, answer it with [probe.WriteShed]. It then counts
// as load and not as a failure. The same holds for any answer with status 429 or 503 and a header
// retry-after.
package httpload
