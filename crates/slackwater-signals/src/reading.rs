//! The figures of one reading.

use core::time::Duration;

/// The figures of one reading. Times are cumulative, never go back while a source is open, and
/// count from an arbitrary point.
///
/// If `used` was there once and is `None` now, the process has ended or the cgroup was removed.
/// Open another source then.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// CPU time of all threads, including those that have ended.
    pub used: Option<Duration>,
    /// How long runnable threads have waited for a CPU, added up over threads: two that wait for 1
    /// s make 2 s. It includes waiting in the run queue and being throttled by a quota, but not
    /// time that a hypervisor takes away. A wait is counted when it ends: a thread that is
    /// throttled for 80 ms shows nothing for 80 ms and then all of it.
    ///
    /// Where threads cannot be seen it is a lower bound that counts the whole cgroup as a single
    /// thread. [`Source::origin`](crate::Source::origin) shows which.
    pub waited: Option<Duration>,
    /// CPU time of exactly the threads whose waiting is in `waited`. The share of the wanted CPU
    /// time that the threads got is `used_by_watched / (used_by_watched + waited)`, of differences.
    /// It counts from another point than `used`. It lacks what a thread did after its last reading,
    /// and threads that began and ended between two readings.
    pub used_by_watched: Option<Duration>,
    /// The most CPU time that a single thread has used since the reading before: a difference, not
    /// a sum. If it is near the interval between the two readings, that thread has no spare
    /// capacity, whatever the other threads do: a loop that is always busy waits for no CPU. `None`
    /// in the first reading. It is up to a tick of the kernel late (1 to 10 ms), so it may exceed
    /// the interval by that much.
    pub busiest_thread: Option<Duration>,
    /// Number of threads, and how many of them are watched.
    pub threads: Option<Threads>,
    /// The most CPU that can be used.
    pub cores_limit: Option<CoresLimit>,
    /// The period of the lowest quota, which may be the limit in `cores_limit`. Threads that have
    /// used up the quota wait for the next period. The wait shows in `waited` when that period
    /// begins.
    pub quota_period: Option<Duration>,
    /// How often and for how long a quota has stopped the cgroup.
    pub throttled: Option<Throttled>,
    /// Pressure stall information, `some` of `cpu`: wall time during which at least one thread
    /// waited for a CPU. It covers the cgroup or, if its origin is
    /// [`Origin::MachinePressure`](crate::Origin::MachinePressure), the whole machine. One waiting
    /// thread and a hundred of them look the same.
    pub stalled: Option<Duration>,
}

/// Threads, watched and all.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Threads {
    /// Threads whose CPU time and waiting are read: at most 1,024.
    pub watched: u32,
    /// All threads at the last count.
    pub total: u32,
}

/// The most CPU that can be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CoresLimit {
    /// In thousandths of a core, 1 or more.
    pub millicores: u32,
    /// What sets the limit.
    pub by: LimitedBy,
}

/// What limits the usable CPU: the lower of the two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LimitedBy {
    /// The quota of the cgroup or of an ancestor.
    Quota,
    /// The number of CPUs that its threads may run on.
    AllowedCpus,
}

/// The effect of a quota on a cgroup.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Throttled {
    /// How long the group's run queues were stopped, added up over CPUs. It is not added up over
    /// threads, so it is not part of `waited` and must not be added to it. A stop is counted when
    /// it ends.
    pub time: Duration,
    /// Periods of the quota that have ended while the group had something to run.
    pub periods: u64,
    /// The periods among them in which the group used up the quota.
    pub throttled_periods: u64,
}
