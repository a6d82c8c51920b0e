package policy

import "github.com/slackwater/slackwater/go/internal/ints"

// Turns show which replicas had more than their share of this client's recent queries.
//
// Reports show what is in flight, not what was just done. A replica with a CPU quota, or with a
// cache or a garbage collector that needs time after work, looks idle until it stops. Of replicas
// that are all idle, one with slightly better data would get everything. So a client remembers how
// many recent queries it has sent to each replica. With n replicas, the turn of each is one query
// in n: a replica that had more is ahead.
//
// Everything sent to a replica counts, including retries, second copies and pinned queries. If a
// query avoids a replica because of its share (it is new or fails), the replica's turn passes;
// otherwise it would catch up on what it is spared. A replica that joins, or comes back, starts as
// if it had just had its turn, so that not every client starts with it.

const (
	// fine is the number of parts of a query in which queries are counted.
	fine     = 1 << fineBits
	fineBits = 10
	// aheadPerQuery is by how many queries a replica must be ahead to count as one more in flight.
	aheadPerQuery = 4
	// aheadMax is the largest surcharge for being ahead: larger differences in reports always count.
	aheadMax = 2 * fine
)

// turns are the turns of one replica with a client. The zero value is none so far.
type turns struct {
	// last is the number of the last query that went there, counted from 1. 0 before any.
	last uint64
	// lately is the number of its recent queries when that query was sent there, in 1/1024. After d
	// more queries, n / (n + d + 1) of that counts, with n replicas.
	lately uint64
}

// turn is the turns of a replica at a pick.
type turn struct {
	// last is the number of the last query that went there; lower means longer ago.
	last uint64
	// ahead is the surcharge for more than its turn of recent queries, in queries in flight; in
	// 1/1024, at most 2.
	ahead uint64
}

// turnsSince returns the turns of a replica that joins, or comes back, after this many queries: as
// if it had just had its regular turn. Before the first query no replica has had any.
func turnsSince(sent uint64) turns {
	if sent == 0 {
		return turns{}
	}
	// One when it was due, and the last one.
	return turns{last: sent, lately: 2 * fine}
}

// now returns the turns after a client has sent this many queries to this many replicas.
func (t turns) now(sent uint64, replicas int) turn {
	// A replica with exactly its turns has had one query when the next is due.
	ahead := ints.Sub(t.recent(sent, replicas), fine)
	return turn{last: t.last, ahead: min(ahead/aheadPerQuery, aheadMax)}
}

// take notes that the query of this number goes there.
func (t *turns) take(sent uint64, replicas int) {
	*t = turns{last: sent, lately: t.recent(ints.Sub(sent, 1), replicas) + fine}
}

func (t turns) recent(sent uint64, replicas int) uint64 {
	memory := uint64(max(replicas, 1))
	// lately is at most as many queries as there ever were replicas, plus one: nothing overflows.
	return t.lately * memory / ints.Add(ints.Sub(sent, t.last), memory+1)
}
