// Package probe is the probe protocol: how a client learns a replica's load, and how the replica
// reports it.
//
// A probe is one request and one reply with the same meaning over UDP and over HTTP. The
// specification is docs/reference/probe-protocol.md, and vectors/probe checks both sides.
//
//   - [Client] probes replicas by UDP, [HTTPClient] by HTTP.
//   - [Responder] answers probes over UDP, [Handler] over HTTP.
//   - The functions that append, parse, read and write encode what these exchange, for programs
//     that have sockets or transports of their own.
//
// Package load makes the reports; package httpload serves them beside an application.
package probe
