// Package load is the server side of Slackwater for gRPC: it counts the requests in flight of a
// gRPC server, and reports its load to the clients that balance over it.
//
//	reporter := load.New()
//	server := grpc.NewServer(reporter.ServerOptions()...)
//	reporter.Register(server)
//	pb.RegisterGreeterServer(server, greeter{})
//	…
//	reporter.GracefulStop(ctx, server)
//
// A [Reporter] counts calls by a stats handler. A call is in flight from the moment when its method
// is known until its status is written. Latency ends when the response is sent; that of a streaming
// response, when its head is sent. Calls that are not queries are not counted: see [Exclude].
//
// # How clients learn the load
//
//   - By gRPC: [Reporter.Register] adds the service slackwater.probe.v1.Load.
//   - By UDP: [Reporter.ServeUDP] answers datagrams on a socket of its own.
//   - With each response, on request: after a probe by gRPC with carry, the trailers of the calls
//     on its connection have x-slackwater-load, unless they fail or the server drains. That
//     needs the interceptors of [Reporter.ServerOptions].
//   - With each response: [WithORCA] adds an ORCA report to the trailers of each call.
//
// All of them are described in docs/reference/probe-protocol.md.
//
// # How a call ends
//
// A status that blames the server counts as failed: UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED,
// UNIMPLEMENTED, INTERNAL, UNAVAILABLE and DATA_LOSS. So does a handler that panics. A failed call
// is no sample of latency, so that a server that fails fast does not look fast.
//
// Other statuses, such as NOT_FOUND, are good answers to bad requests. A call counts as cancelled
// if its client left or its deadline passed, if its status is CANCELLED, or if the server pushed it
// back: DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED or UNAVAILABLE with "grpc-retry-pushback-ms" in the
// trailers.
package load
