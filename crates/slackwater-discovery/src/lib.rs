//! Where fleets come from: lists that change while requests run.
//!
//! A `Source` says, again and again, who is in a fleet: always the whole of it, or why it cannot
//! say. [`Discovery`] follows one source for the whole process, believes what a `guard` believes,
//! and passes fleets on as values; workers take them when they come, and never wait for one. A
//! source that fails changes nothing: the last good fleet stays.
//!
//! | | file |
//! |---|---|
//! | a fleet as a value, and what changes from one to the next | `fleet` |
//! | which lists are believed | `guard` |
//! | from a source to those that follow it | `follow` |
//! | names in the DNS: addresses and services | `dns`, `schedule` |
//! | a file that another program keeps up to date | `file`, `file_watch` |
//!
//! Another kind of source (an orchestrator, a registry) is one file here, and one key in
//! `slackwater-config`.

mod dns;
mod file;
pub mod file_watch;
mod fleet;
mod follow;
mod guard;
mod schedule;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use dns::{DnsSource, Resolver};
pub use file::FileSource;
pub use fleet::{Fleet, FleetChange};
pub use follow::Discovery;

use futures_util::future::BoxFuture;
use std::time::SystemTime;

/// Says who is in a fleet.
pub trait Source: Send + 'static {
    /// What it asks, for the log and the status: `dns web.internal:8080`.
    fn name(&self) -> String;

    /// When it has said who is in the fleet to begin with; `None` if nobody has heard of it yet.
    fn opened_at(&self) -> Option<SystemTime> {
        None
    }

    /// Waits until there is something to say: the whole fleet, or why it is not known now. The
    /// first call looks at once, unless it has [spoken already](Self::opened_at). It is always
    /// awaited to its end.
    fn next(&mut self) -> BoxFuture<'_, Result<Fleet, String>>;
}
