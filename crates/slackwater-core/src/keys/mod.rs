//! Keys: queries about the same thing go to the same replicas, within a bound on their load.
//!
//! A query [with a key](crate::policy::Query::with_key) goes to the key's *home*: the first replica
//! of an order that the key and the replicas' [names](crate::policy::Event::Identified) determine,
//! the same for all clients. While the home is busy, the policy chooses among the other replicas of
//! the key's *set*, the next in the order; while all of them are, among all replicas. A replica is
//! busy while `(load + 1) × mean latency > factor × mean of the same over the others`, where its
//! load is what it has reported plus what this client has sent since. An idle one is never busy,
//! nor is the only one.
//!
//! [`keyed()`] puts this around any policy, with health inside: it is a policy itself, and passes
//! all events on. Queries without a key are chosen as without it, draw for draw.
//!
//! With *partitions*, keys fall into a fixed number of parts, each with its own set. A partition
//! with much load gets more homes.
//!
//! ```
//! use slackwater_core::keys::{Identity, KeyConfig, KeyHasher, keyed};
//! use slackwater_core::policy::{Event, Outcome, PickReason, Query};
//! use slackwater_core::{Instant, NoDraw, ReplicaIds, SplitMix64, default_policy};
//!
//! let mut policy = keyed(default_policy(), &KeyConfig::default());
//! let (now, mut draw) = (Instant::EPOCH, SplitMix64::new(1));
//! let mut ids = ReplicaIds::new();
//! for name in ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"] {
//!     let replica = ids.allocate().expect("room");
//!     policy.handle(now, Event::Added(replica), &mut NoDraw);
//!     let identity = Identity::new(name.as_bytes(), 0);
//!     policy.handle(now, Event::Identified(replica, identity), &mut NoDraw);
//! }
//! let query = Query::first().with_key(KeyHasher::default().hash(b"user 1"));
//! let mut home = None;
//! for _ in 0..10 {
//!     let pick = policy.choose(now, query, &mut draw, None).pick().expect("three");
//!     assert_eq!(pick.reason, PickReason::KeyHome);
//!     let replica = pick.ticket.replica();
//!     assert_eq!(*home.get_or_insert(replica), replica, "always the same");
//!     policy.handle_query_done(now, pick.ticket, Outcome::Success);
//! }
//! ```
//!
//! `[Decision 0022]`

mod choice;
mod keyed;
mod loads;
mod order;
mod partitions;
mod recent;
mod settings;

pub use crate::key::{Identity, KeyHash, KeyHasher};
pub use crate::policy::{KeyChoice, KeyServer, KeyView, PartitionView};
pub use keyed::{Keyed, keyed};
pub use settings::{KeyConfig, KeySettings};
