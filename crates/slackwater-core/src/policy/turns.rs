//! Turns: which replicas had more than their share of this client's recent queries. `[Decision
//! 0014]`
//!
//! Reports show what is in flight, not what was just done. A replica with a CPU quota, or with a
//! cache or a garbage collector that needs time after work, looks idle until it stops. Of replicas
//! that are all idle, one with slightly better data would get everything. So a client remembers how
//! many recent queries it has sent to each replica. With n replicas, the turn of each is one query
//! in n: a replica that had more is *ahead*.
//!
//! Everything sent to a replica counts, including retries, second copies and pinned queries. If a
//! query avoids a replica because of its share (it is new or fails), the replica's turn passes;
//! otherwise it would catch up on what it is spared. A replica that joins, or comes back, starts as
//! if it had just had its turn, so that not every client starts with it.

/// Parts of a query in which queries are counted.
pub(in crate::policy) const FINE: u64 = 1 << FINE_BITS;
pub(in crate::policy) const FINE_BITS: u32 = 10;
/// Being ahead by this many queries counts as one more in flight.
const AHEAD_PER_QUERY: u64 = 4;
/// Largest surcharge for being ahead: larger differences in reports always count.
const AHEAD_MAX: u64 = 2 * FINE;

/// The turns of one replica with a client. `Default` is none so far.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::policy) struct Turns {
    /// The number of the last query that went there, counted from 1. 0 before any.
    last: u64,
    /// Its recent queries when that query was sent there, in 1/1024. After d more queries, n / (n +
    /// d + 1) of that counts, with n replicas.
    lately: u64,
}

/// The turns of a replica at a pick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::policy) struct Turn {
    /// The number of the last query that went there; lower means longer ago.
    pub(in crate::policy) last: u64,
    /// Surcharge for more than its turn of recent queries, in queries in flight; in 1/1024, at most
    /// 2.
    pub(in crate::policy) ahead: u64,
}

impl Turns {
    /// The turns of a replica that joins, or comes back, after `sent` queries: as if it had just
    /// had its regular turn. Before the first query no replica has had any.
    pub(in crate::policy) fn since(sent: u64) -> Self {
        if sent == 0 {
            return Self::default();
        }
        Self {
            last: sent,
            // One when it was due, and the last one.
            lately: 2 * FINE,
        }
    }

    /// The turns after a client has sent `sent` queries to this many replicas.
    pub(in crate::policy) fn now(self, sent: u64, replicas: usize) -> Turn {
        // A replica with exactly its turns has had one query when the next is due.
        let ahead = self.lately(sent, replicas).saturating_sub(FINE);
        Turn {
            last: self.last,
            ahead: (ahead / AHEAD_PER_QUERY).min(AHEAD_MAX),
        }
    }

    /// Notes that query number `sent` goes there.
    pub(in crate::policy) fn take(&mut self, sent: u64, replicas: usize) {
        *self = Self {
            last: sent,
            lately: self.lately(sent.saturating_sub(1), replicas) + FINE,
        };
    }

    fn lately(self, sent: u64, replicas: usize) -> u64 {
        let memory = replicas.max(1) as u64;
        let since = sent.saturating_sub(self.last);
        // At most as many queries as there ever were replicas, plus one: nothing overflows.
        self.lately * memory / since.saturating_add(memory + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// The turns after `count` queries, each sent to the replica that `to` returns.
    fn after(count: usize, replicas: usize, to: impl Fn(usize) -> usize) -> impl Fn(usize) -> Turn {
        let mut turns = vec![Turns::default(); replicas];
        for sent in 1..=count {
            turns[to(sent)].take(sent as u64, replicas);
        }
        move |replica: usize| turns[replica].now(count as u64, replicas)
    }

    #[test]
    fn replica_with_its_fair_turns_is_not_ahead_when_due() {
        let turn = after(99, 4, |sent| sent % 4);
        assert_eq!(turn(0), Turn { last: 96, ahead: 0 }, "the next is its own");
        let ahead = [1, 2, 3].map(|replica| turn(replica).ahead);
        assert_eq!(ahead, [36, 85, 153], "the longer ago, the less");
    }

    #[test]
    fn replica_with_extra_queries_is_ahead_and_with_few_is_not_behind() {
        let turn = after(
            1_000,
            4,
            |sent| {
                if sent % 2 == 0 { 0 } else { 1 + sent / 2 % 3 }
            },
        );
        // It had two of every four queries instead of one.
        assert!((200..=400).contains(&turn(0).ahead), "{:?}", turn(0));
        let turn = after(1_000, 4, |sent| usize::from(sent % 100 == 0));
        assert_eq!(turn(1).ahead, 0, "the last one just went there");
        assert_eq!((turn(2), turn(3)), (Turn::default(), Turn::default()));
    }

    #[test]
    fn old_turns_are_forgotten() {
        let busy = after(1_000, 4, |_| 0);
        assert!(busy(0).ahead > 700);
        let flooded = after(100_000, 1_000, |_| 0);
        assert_eq!(flooded(0).ahead, 2 * FINE, "and no more");
        let since = after(
            1_100,
            4,
            |sent| {
                if sent <= 1_000 { 0 } else { 1 + sent % 3 }
            },
        );
        assert_eq!(
            since(0),
            Turn {
                last: 1_000,
                ahead: 0
            }
        );
    }

    #[test]
    fn only_replica_is_never_ahead() {
        assert_eq!(
            after(1_000, 1, |_| 0)(0),
            Turn {
                last: 1_000,
                ahead: 0
            }
        );
        let turn = Turns::default().now(u64::MAX, 0);
        assert_eq!(turn, Turn::default());
    }

    #[test]
    fn replica_that_joins_is_as_far_ahead_as_one_that_just_had_its_turn() {
        let had_its_turn = after(99, 4, |sent| sent % 4)(3);
        assert_eq!(Turns::since(99).now(99, 4), had_its_turn);
        assert_eq!(Turns::since(0).now(0, 4), Turn::default());
    }
}
