//! What one reading tells.

use core::time::Duration;

/// What one reading tells. Times are cumulative, never go back while a source is open, and count
/// from a point without meaning.
///
/// `used` that was there once and is `None` now: the process has ended, or the cgroup was removed.
/// Open another source then.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// CPU time that was used, of all threads, also of those that have ended.
    pub used: Option<Duration>,
    /// How long threads that could have run have waited for a CPU, added up over threads: two that
    /// wait for 1 s make 2 s. Both waiting in line and being throttled by a quota are in it; time
    /// that a hypervisor takes away is not. A wait is counted when it ends: a thread that is
    /// throttled for 80 ms shows nothing for 80 ms and then all of it.
    ///
    /// Where threads cannot be seen it is a lower bound, with the whole cgroup for a single thread:
    /// [`Source::origin`](crate::Source::origin) tells.
    pub waited: Option<Duration>,
    /// CPU time that was used by just those threads whose waiting is in `waited`. The share that
    /// was got of what was wanted is `used_by_watched / (used_by_watched + waited)`, of
    /// differences. It counts from another point than `used`, and lacks what a thread did after its
    /// last reading, and threads that began and ended between two.
    pub used_by_watched: Option<Duration>,
    /// The most CPU time that a single thread has used since the reading before: no sum, but the
    /// difference already. Near the interval between the two readings there is no room left in that
    /// thread, whatever the others do: a loop that is always busy waits for no CPU. `None` in the
    /// first reading. Up to a tick of the kernel late (1 to 10 ms), so it may be more than the
    /// interval by as much.
    pub busiest_thread: Option<Duration>,
    /// How many threads there are, and how many of them are watched.
    pub threads: Option<Threads>,
    /// The most CPU that can be had.
    pub cores_limit: Option<CoresLimit>,
    /// The period of the lowest quota, of which `cores_limit` may be the limit: threads that have
    /// used it up wait for the next period, and that shows in `waited` when it begins.
    pub quota_period: Option<Duration>,
    /// How often and for how long a quota has stopped the cgroup.
    pub throttled: Option<Throttled>,
    /// Pressure stall information, `some` of `cpu`: wall time during which at least one thread
    /// waited for a CPU, in the cgroup or, where its origin is
    /// [`Origin::MachinePressure`](crate::Origin::MachinePressure), in the whole machine. One
    /// thread that waits and a hundred that do look the same.
    pub stalled: Option<Duration>,
}

/// Threads, watched and all.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Threads {
    /// Those whose CPU time and waiting are read: at most 1,024.
    pub watched: u32,
    /// All that were there when they were last counted.
    pub total: u32,
}

/// The most CPU that can be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CoresLimit {
    /// In thousandths of a core, 1 or more.
    pub millicores: u32,
    /// What it is that limits.
    pub by: LimitedBy,
}

/// What limits the CPU that can be had: the lower of the two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LimitedBy {
    /// A quota, of the cgroup or of one that it is in.
    Quota,
    /// The number of CPUs that its threads may run on.
    AllowedCpus,
}

/// What a quota has done to a cgroup.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Throttled {
    /// How long the group's run queues were stopped, added up over CPUs: not over threads, so it is
    /// no part of `waited` and must not be added to it. Counted when a stop ends.
    pub time: Duration,
    /// Periods of the quota that have ended while the group had something to run.
    pub periods: u64,
    /// How many of those had used up the quota.
    pub throttled_periods: u64,
}
