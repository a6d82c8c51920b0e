// Package policy decides which replica gets the next query.
//
// It is a port of the policies of the Rust crate slackwater-core, and makes the same decisions, bit
// for bit: both pass the vectors in vectors/policy. A [Policy] is a value. It has no clock, no
// socket, no randomness and no goroutine: the caller passes the time and a source of random draws,
// and tells it what has happened. It is not safe for concurrent use; package httplb and the gRPC
// policy hold a mutex around it.
//
// All arithmetic is on integers. Times are nanoseconds since an epoch that the caller chooses.
// Rates and shares are in [Millionths].
//
// # Policies
//
//   - shortest_expected_delay, the [Default]: probes replicas for their load and picks the shortest
//     expected delay.
//   - prequal: probes replicas off the query's path, keeps the answers in a pool, and picks by the
//     hot–cold rule (Wydrowski, Kleinberg, Rumble, Archer, NSDI 2024).
//   - prequal_sync: probes a few replicas for each query and picks among the answers.
//   - least_loaded: picks the replica with the fewest of this client's own requests in flight.
//   - random: picks a replica at random.
//
// # Use
//
// A caller allocates names for its replicas with [ReplicaIDs] and adds them with [EventAdded]. For
// each query it calls [Policy.Choose], sends the query to the replica of the ticket, and returns
// the ticket with [Policy.HandleDone]. After each event it sends the probes that [Policy.NextProbe]
// returns, and passes the answers back as [EventReport]. At the time of [Policy.NextTimeout] it
// passes [EventTimeout].
package policy
