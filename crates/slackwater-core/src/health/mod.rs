//! Who may be chosen, and for what share: around any policy, by what a client sees of its own
//! queries.
//!
//! A policy says who is best; health says who may be asked at all. [`build`] puts it around a
//! policy as one more policy. It sees each pick, head, end and report, and has two means that every
//! policy honours already: a replica is taken *out* of the choice ([`Event::Available`]), or has a
//! *share*: a query avoids it with a probability of one less its share. A third is a *trial*: a
//! query sent to a replica that is out, to see how it does.
//!
//! - **Error aversion** `[E1]` to `[E5]`: success rates over a window of time, relative to the
//!   others', turned into an expected cost that counts what a failure costs whoever has to try
//!   again. A replica that costs more than the others do loses its share; one that costs more than
//!   even a full fleet is ejected, until trials succeed.
//! - **Latency probation** `[H4]`: a replica whose answers, or whose queries in flight, take many
//!   times longer than the others' is out, until trials show that it is as fast as they are.
//! - **Warm-up by evidence**: a replica that joins or restarts has a small share, which doubles
//!   with answers that come in about the time of the others'.
//! - **Push-back** is load and no failure: it lowers a share for a moment and ejects nobody.
//!
//! What holds throughout: everything is relative to the others, so that a fleet that fails, slows
//! down or pushes back evenly loses nobody `[E4]`; no more than a share of the fleet is out; nobody
//! left to choose is nobody out. Only what this client saw itself is evidence *for* a replica: a
//! report may accuse it and cannot clear it.
//!
//! Whole numbers only, and no loop over the fleet in a pick: standings are settled ten times a
//! second. While all replicas are sound a pick costs a comparison and the note that a query is out.
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

/// Standings are settled so often, in nanoseconds.
const TICK_NS: u64 = 100_000_000;
/// A share of all, in millionths.
const WHOLE: u32 = crate::fixed::ONE;
