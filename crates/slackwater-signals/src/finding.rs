//! Where figures come from, and why the missing ones are missing: for a log line and for a status
//! page.

use core::fmt;

/// A figure that can be read on some systems.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Figure {
    /// [`Reading::used`](crate::Reading::used).
    Used,
    /// [`Reading::waited`](crate::Reading::waited). If it comes from threads, `used_by_watched`,
    /// `busiest_thread` and `threads` do, too.
    Waited,
    /// The quota in [`Reading::cores_limit`](crate::Reading::cores_limit).
    Quota,
    /// The allowed CPUs in [`Reading::cores_limit`](crate::Reading::cores_limit).
    AllowedCpus,
    /// [`Reading::throttled`](crate::Reading::throttled).
    Throttled,
    /// [`Reading::stalled`](crate::Reading::stalled).
    Stalled,
    /// The weight of the cgroup relative to its siblings. It is in no reading, because it means
    /// nothing without theirs. Its detail has the value from the opening.
    Weight,
}

/// The source of a figure. It stays the same while a [`Source`](crate::Source) is open, so that no
/// sum ever jumps.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Origin {
    /// The CPU clock of the process, to the nanosecond.
    ProcessClock,
    /// `/proc/<pid>/stat`, in ticks of 10 ms.
    ProcessStat,
    /// `schedstat` of each thread.
    Threads,
    /// `cpu.stat` of a cgroup.
    CgroupStat,
    /// `cpuacct.usage` of a cgroup of version 1.
    CgroupAccounting,
    /// `cpu.pressure` of a cgroup.
    CgroupPressure,
    /// `/proc/pressure/cpu`: the whole machine.
    MachinePressure,
    /// `cpu.max`, or `cpu.cfs_quota_us` and `cpu.cfs_period_us`, of a cgroup and its ancestors.
    CgroupQuota,
    /// The union of the CPUs that the threads may run on. It includes cpusets.
    Affinity,
    /// `cpuset.cpus.effective`.
    Cpuset,
    /// `cpu.weight` or `cpu.shares`.
    CgroupWeight,
    /// `std::thread::available_parallelism`, when the source was opened.
    Parallelism,
}

/// What was found for a figure when a source was opened.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The figure.
    pub figure: Figure,
    /// Where it comes from; `None`: it is not available.
    pub origin: Option<Origin>,
    /// The file or clock that it is read from, or why there is none.
    pub detail: String,
}

/// An origin with its detail, or why there is none.
pub(crate) type Found = Result<(Origin, String), String>;

impl Finding {
    pub(crate) fn new(figure: Figure, found: Found) -> Self {
        let (origin, detail) = match found {
            Ok((origin, detail)) => (Some(origin), detail),
            Err(reason) => (None, reason),
        };
        Self {
            figure,
            origin,
            detail,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Used => "used",
            Self::Waited => "waited",
            Self::Quota => "quota",
            Self::AllowedCpus => "allowed CPUs",
            Self::Throttled => "throttled",
            Self::Stalled => "stalled",
            Self::Weight => "weight",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.origin.is_some() { "" } else { "none: " };
        write!(f, "{}: {word}{}", self.figure, self.detail)
    }
}
