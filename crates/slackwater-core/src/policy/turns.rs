//! Who has had more than its turn of this client's queries lately. `[Decision 0014]`
//!
//! Reports tell what is in flight, not what has just been done. A replica with a quota of CPU, or
//! with a cache or a collector that needs time after work, looks idle until it stops; and of
//! replicas that are all idle, the one that is a little better by what was learned would get
//! everything. So a client remembers to whom it has sent how much lately. In turn, each replica
//! gets one of as many queries as there are replicas: whoever had more is *ahead*.
//!
//! Whatever is sent there counts, also retries, second copies and pinned queries. A replica that a
//! query avoids for its share of them, as it is new or fails, has its turn pass: else it would make
//! up for what it is spared. One that joins, or comes back, stands as if it had just had its turn,
//! so that not every client begins with it.

/// Queries, and what is compared with them, are counted in so many parts.
pub(in crate::policy) const FINE: u64 = 1 << FINE_BITS;
const FINE_BITS: u32 = 10;
/// To be ahead by so many queries counts as one more in flight.
const AHEAD_PER_QUERY: u64 = 4;
/// And no more than this as so many: what reports say of more counts, whoever's turn it is.
const AHEAD_MAX: u64 = 2 * FINE;

/// What one replica has had of a client's queries. `Default` is nothing yet.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::policy) struct Turns {
    /// The number of the query that last went there, the first of all being 1; 0 before any.
    last: u64,
    /// What it had lately when that query had gone there, in 1/1024. When d more queries have been
    /// sent, n / (n + d + 1) of that counts, of n replicas.
    lately: u64,
}

/// How a replica's turns stand at a pick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::policy) struct Turn {
    /// The number of the query that last went there; the lower, the longer ago its last turn was.
    pub(in crate::policy) last: u64,
    /// For how many more queries in flight it counts, having had more than its turn lately; in
    /// 1/1024, and 2 at the most.
    pub(in crate::policy) ahead: u64,
}

impl Turns {
    /// Of a replica that joins, or comes back, when `sent` queries had been sent: as if it had just
    /// had its turn, as it has each. Before the first query nobody has had any.
    pub(in crate::policy) fn since(sent: u64) -> Self {
        if sent == 0 {
            return Self::default();
        }
        Self {
            last: sent,
            // One when it was due, and that one.
            lately: 2 * FINE,
        }
    }

    /// How they stand when a client has sent `sent` queries, to so many replicas.
    pub(in crate::policy) fn now(self, sent: u64, replicas: usize) -> Turn {
        // Whoever gets each of its turns, and nothing else, has had one query when the next is due.
        let ahead = self.lately(sent, replicas).saturating_sub(FINE);
        Turn {
            last: self.last,
            ahead: (ahead / AHEAD_PER_QUERY).min(AHEAD_MAX),
        }
    }

    /// Query number `sent` goes there.
    pub(in crate::policy) fn take(&mut self, sent: u64, replicas: usize) {
        *self = Self {
            last: sent,
            lately: self.lately(sent.saturating_sub(1), replicas) + FINE,
        };
    }

    fn lately(self, sent: u64, replicas: usize) -> u64 {
        let memory = replicas.max(1) as u64;
        let since = sent.saturating_sub(self.last).saturating_add(1);
        // At most as many queries as there ever were replicas, and one: nothing overflows.
        self.lately * memory / memory.saturating_add(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// How turns stand after `count` queries, each sent to the replica that `to` says.
    fn after(count: usize, replicas: usize, to: impl Fn(usize) -> usize) -> impl Fn(usize) -> Turn {
        let mut turns = vec![Turns::default(); replicas];
        for sent in 1..=count {
            turns[to(sent)].take(sent as u64, replicas);
        }
        move |replica: usize| turns[replica].now(count as u64, replicas)
    }

    #[test]
    fn whoever_has_each_of_its_turns_is_not_ahead_when_the_next_is_due() {
        let turn = after(99, 4, |sent| sent % 4);
        assert_eq!(turn(0), Turn { last: 96, ahead: 0 }, "the next is its own");
        let ahead = [1, 2, 3].map(|replica| turn(replica).ahead);
        assert_eq!(ahead, [36, 85, 153], "the longer ago, the less");
    }

    #[test]
    fn whoever_has_every_second_query_is_ahead_and_whoever_has_few_is_not_behind() {
        let turn = after(
            1_000,
            4,
            |sent| {
                if sent % 2 == 0 { 0 } else { 1 + sent / 2 % 3 }
            },
        );
        // Two of four queries in place of one.
        assert!((200..=400).contains(&turn(0).ahead), "{:?}", turn(0));
        let turn = after(1_000, 4, |sent| usize::from(sent % 100 == 0));
        assert_eq!(turn(1).ahead, 0, "the last one just went there");
        assert_eq!((turn(2), turn(3)), (Turn::default(), Turn::default()));
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
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
    fn one_replica_alone_is_never_ahead() {
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
}
