// Package health decides which replicas may be chosen, and with what share. It wraps any
// [policy.Policy] and judges by what a client sees of its own queries.
//
// A policy picks the best replica; health decides which replicas may be picked. [Guard] wraps a
// policy in health, which is a policy itself. It sees each pick, head, end and report, and has two
// means. It takes a replica out of the choice, or gives it a share: a query avoids the replica with
// a probability of one minus its share. A third means is a trial: a query sent to a replica that is
// out, to test it.
//
//   - Error aversion: success rates over a window of time, relative to the others'. They become an
//     expected cost that includes what a failure costs a client that retries. A replica that costs
//     more than the others loses share. One that costs more than even a full fleet is ejected until
//     trials succeed.
//   - Latency probation: a replica is out if its answers, or its queries in flight, take many times
//     longer than the others'. Trials bring it back when it is as fast as they are.
//   - Warm-up by evidence: a replica that joins or restarts has a small share, which doubles with
//     answers about as fast as the others'.
//   - Pushback counts as load, not as failure: it lowers a share for a moment and never ejects.
//
// Everything is relative to the other replicas: a fleet that fails, slows down or pushes back
// evenly loses no replica. At most a set part of the fleet is out, and none is out if no other
// replica could be chosen. Only what this client saw itself is evidence for a replica: a report may
// accuse it and cannot clear it.
//
// The arithmetic has whole numbers only, and a pick has no loop over the fleet: standings are
// settled ten times a second. While all replicas are healthy, a pick costs a comparison and a note
// that a query is in flight. Nothing is allocated after a replica has joined.
//
// The package is a port of the health of the Rust crate slackwater-core, and makes the same
// decisions, bit for bit. There it also removes the failure penalty of peak_ewma, which is not a
// policy of this module: none of this module's policies has a penalty of its own.
package health
