//! Health decides which replicas may be chosen, and with what share. It wraps any policy and judges
//! by what a client sees of its own queries.
//!
//! A policy picks the best replica; health decides which replicas may be picked. [`build`] wraps a
//! policy in health, which is a policy itself. It sees each pick, head, end and report, and has two
//! means that every policy supports already. It takes a replica *out* of the choice
//! ([`Event::Available`]), or gives it a *share*: a query avoids the replica with a probability of
//! one minus its share. A third means is a *trial*: a query sent to a replica that is out, to test
//! it.
//!
//! - **Error aversion** `[E1]` to `[E5]`: success rates over a window of time, relative to the
//!   others'. They become an expected cost that includes what a failure costs a client that
//!   retries. A replica that costs more than the others loses share. One that costs more than even
//!   a full fleet is ejected until trials succeed.
//! - **Latency probation** `[H4]`: a replica is out if its answers, or its queries in flight, take
//!   many times longer than the others'. Trials bring it back when it is as fast as they are.
//! - **Warm-up by evidence**: a replica that joins or restarts has a small share, which doubles
//!   with answers about as fast as the others'.
//! - **Pushback** counts as load, not as failure: it lowers a share for a moment and never ejects.
//!
//! Everything is relative to the other replicas: a fleet that fails, slows down or pushes back
//! evenly loses no replica `[E4]`. At most a set part of the fleet is out, and none is out if no
//! other replica could be chosen. Only what this client saw itself is evidence *for* a replica: a
//! report may accuse it and cannot clear it.
//!
//! The arithmetic has whole numbers only, and a pick has no loop over the fleet: standings are
//! settled ten times a second. While all replicas are healthy, a pick costs a comparison and a note
//! that a query is in flight.
//! `[Decision 0008]`
//!
//! [`Event::Available`]: crate::policy::Event::Available

mod course;
mod evidence;
mod flow;
mod guarded;
mod judge;

mod record;
mod reference;
mod restart;
mod settings;
mod shares;
mod standing;
mod trials;

mod warm_up;
mod window;

pub use guarded::{Guarded, build, default_policy, guard};

pub use crate::policy::{HealthCounters, HealthState, HealthView};
pub use settings::{
    ErrorSettings, HealthConfig, HealthSettings, ProbationSettings, WarmUpSettings,
};

/// Interval between settlements of standings, in nanoseconds.
const TICK_NS: u64 = 100_000_000;
/// A share of all, in millionths.
const WHOLE: u32 = crate::fixed::ONE;
