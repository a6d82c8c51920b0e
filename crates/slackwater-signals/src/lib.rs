//! What the operating system tells of CPU: how much a process or a cgroup has used, how long its
//! threads have waited for more, and how much it may have at most.
//!
//! A [`Source`] is opened once and read often, every 50 ms to a second. Reading never fails and,
//! once warm, never allocates: what a system does not tell is `None`. [`Source::findings`] says
//! once what was found and why the rest was not. No privilege is needed beyond reading the files of
//! `/proc` and of the cgroup.
//!
//! ```
//! use slackwater_signals::{Source, Target};
//!
//! let mut source = Source::open(&Target::ThisProcess);
//! for finding in source.findings() {
//!     println!("{finding}");
//! }
//! let before = source.read();
//! // ... 100 ms later:
//! let now = source.read();
//! if let (Some(used), Some(waited)) = (now.used_by_watched, now.waited) {
//!     let used = used.saturating_sub(before.used_by_watched.unwrap_or_default());
//!     let waited = waited.saturating_sub(before.waited.unwrap_or_default());
//!     let _share_that_was_got = (used, used + waited);
//! }
//! ```
//!
//! All times are cumulative and never go back; what they count from has no meaning. So whoever
//! reads takes differences. This crate makes no estimate of them, and has no clock.
//!
//! What each figure needs, its pitfalls, and what a reading costs: `docs/explanation/signals.md`.
//! On systems other than Linux there is only the CPU time of this process, and how many CPUs it may
//! use.

#![forbid(unsafe_code)]

mod finding;
mod reading;
mod target;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod parse;
#[cfg(target_os = "linux")]
pub use linux::Source;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::Source;

pub use finding::{Figure, Finding, Origin};
pub use reading::{CoresLimit, LimitedBy, Reading, Threads, Throttled};
pub use target::Target;
