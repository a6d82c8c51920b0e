// Package keys sends queries about the same thing to the same replicas, within a bound on their
// load. It is a port of the module keys of the Rust crate slackwater-core, and makes the same
// decisions, bit for bit: both pass the vectors in vectors/keys. So the proxy slackwater serve and
// clients in Go agree on the replicas of a key, if they know the same servers by the same
// addresses.
//
// A query with a key ([policy.Query] Key) goes to the key's home: the first server of an order that
// the key and the names of the servers determine, the same for all clients. While the home is busy,
// the policy chooses among the other servers of the key's set, the next in the order. While all of
// them are, it chooses among all replicas. A server is busy while
//
//	(load + 1) × mean latency > factor × mean of the same over the other servers
//
// where its load is what it has reported plus what this client has sent since. An idle server is
// never busy, nor is the only one. The reason of a pick says which it was: key_home, key_set or
// key_spill.
//
// [Wrap] puts this around any policy, with package health inside. Queries without a key are chosen
// as without it, draw for draw. A caller names its replicas with [policy.EventIdentified]; one of
// weight w is w replicas with the same name.
//
// Under prequal_sync, which probes for each query, nothing is bounded: the homes of the key are
// among the replicas that are probed, and their answers decide.
//
// With partitions, keys fall into a fixed number of parts, each with its own set, and a partition
// with much load gets more homes.
package keys
