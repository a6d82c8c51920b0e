//! One replica's machine: work goes in, finished work comes out.
//!
//! A machine knows nothing of clients, policies or the network. Its time is whole nanoseconds since the start of the run,
//! its work is nanoseconds of CPU. It says when something next happens inside it ([`Machine::next_event`]); whoever drives
//! it calls [`Machine::advance`] then. Everything random in it comes from its own seeded stream, and depends on time alone,
//! not on the work, so that every policy meets the same neighbours.

use crate::scenario::Scenario;

/// Nanoseconds since the start of the run.
pub type Time = u64;

/// The end of time: never.
pub const NEVER: Time = Time::MAX;

/// The driver's name for a query's work on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);
