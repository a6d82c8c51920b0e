// Package probepb has the messages and the service of Slackwater's probe protocol over gRPC.
//
// A client that balances load calls slackwater.probe.v1.Load/Probe to learn a server's load.
// Package load registers an implementation on a server, and package slackwatergrpc is the client.
// The fields are those of docs/reference/probe-protocol.md, which carries them over UDP and HTTP,
// too.
//
// [NewLoadReport] and [LoadReport.AsLoadReport] convert between the message and
// [policy.LoadReport].
package probepb

// The path of the file is registered for the whole process, so it is not only "probe.proto", which
// another module may have as well.
//
//go:generate protoc -I slackwater/probe/v1=. --go_out=. --go_opt=module=github.com/slackwater/slackwater/go/grpc/probepb --go-grpc_out=. --go-grpc_opt=module=github.com/slackwater/slackwater/go/grpc/probepb slackwater/probe/v1/probe.proto
