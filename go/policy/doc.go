// Package policy decides which replica gets the next query.
//
// It is a port of the Rust crate slackwater-core, and makes the same decisions, bit for bit: both
// pass the vectors in vectors/policy. A [Policy] is a value. It has no clock, no socket, no
// randomness and no goroutine: the caller passes the time and a source of random draws, and tells
// it what has happened. It is not safe for concurrent use; package httplb and the gRPC policy hold
// a mutex around it.
//
// All arithmetic is on integers. Times are nanoseconds since an epoch that the caller chooses.
package policy
