// Package probepb has the messages and the service of Slackwater's probe protocol over gRPC.
//
// A client that balances load calls slackwater.probe.v1.Load/Probe to learn a server's load. Package
// load registers an implementation on a server, and package slackwatergrpc is the client. The fields
// are those of docs/reference/probe-protocol.md, which carries them over UDP and HTTP, too.
//
// [NewLoadReport] and [LoadReport.AsLoadReport] convert between the message and [policy.LoadReport].
package probepb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative probe.proto
