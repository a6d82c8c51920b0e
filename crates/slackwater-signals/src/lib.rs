//! CPU figures of the operating system: how much a process or a cgroup has used, how long its
//! threads have waited for a CPU, and how much it may use at most.
//!
//! A [`Source`] is opened once and read often, every 50 ms to a second. Reading never fails and,
//! once warm, never allocates. A figure that the system does not provide is `None`.
//! [`Source::findings`] lists once what was found and why the rest is missing. The only privilege
//! needed is reading the files of `/proc` and of the cgroup.
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
//! All times are cumulative and never go back. They count from an arbitrary point, so only
//! differences have a meaning. This crate makes no estimate of them and has no clock.
//!
//! `docs/explanation/signals.md` describes what each figure needs, its pitfalls, and the cost of a
//! reading. Systems other than Linux provide only the CPU time of this process and the number of
//! CPUs that it may use.

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
