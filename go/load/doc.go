// Package load measures a replica's own load: its requests in flight, and how long the next query
// would take.
//
// A [Load] is one replica's state, shared by its handlers and its probe responders. Package
// httpload wraps it around an [net/http.Handler]. A server of another kind calls [Load.Begin] for
// each query and [Query.End] at the last byte of its answer, and answers probes with [Load.Report].
//
// [Tracker], [Rates] and [CapacityEstimator] are the parts of it that have no clock: the caller
// passes the time. They are ports of the Rust crate slackwater-core and give the same numbers, bit
// for bit. All their arithmetic is on integers.
package load
