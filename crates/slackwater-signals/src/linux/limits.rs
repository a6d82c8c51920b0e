//! The most cores that can be used: the lower of the quota and the allowed CPUs.

use super::group::{Quotas, cpuset};
use super::places::Places;
use super::process::Process;
use super::small_file::SmallFile;
use super::threads::{Watched, affinity};
use crate::finding::{Found, Origin};
use crate::parse::cpu_list_count;
use crate::reading::{CoresLimit, LimitedBy};
use core::time::Duration;

/// The allowed CPUs are read again after this many readings. They need a system call for each
/// thread, and hardly ever change.
const CPUS_READINGS: u32 = 64;

#[derive(Debug)]
pub(super) struct Limits {
    quotas: Quotas,
    cpus_by: CpusBy,
    cpus: Option<u32>,
    /// Readings since the allowed CPUs were read.
    readings: u32,
    /// The last result.
    last: (Option<CoresLimit>, Option<Duration>),
}

#[derive(Debug)]
enum CpusBy {
    /// The CPUs on which at least one of the watched threads may run. A process may pin its first
    /// thread and no other.
    Threads,
    /// The CPUs of the first thread of a process whose threads are not watched.
    Process(u32),
    Cpuset(SmallFile),
    Nothing,
}

impl CpusBy {
    fn open(
        process: Option<&Process>,
        threads: Option<&Watched>,
        places: &Result<Places, String>,
    ) -> (Self, Found) {
        let threads_are_asked = threads.is_some_and(|it| it.allowed_cpus().is_some());
        if threads_are_asked {
            let detail = "affinity of its threads".to_owned();
            return (Self::Threads, Ok((Origin::Affinity, detail)));
        }
        if let Some(id) = process.map(Process::id)
            && affinity(id).is_some()
        {
            let detail = "affinity of its first thread".to_owned();
            return (Self::Process(id), Ok((Origin::Affinity, detail)));
        }
        match places.as_ref().map_err(Clone::clone).and_then(cpuset) {
            Ok((file, detail)) => (Self::Cpuset(file), Ok((Origin::Cpuset, detail))),
            // The process has no threads yet.
            Err(_) if threads.is_some() => {
                let detail = "affinity of its threads, once there are any".to_owned();
                (Self::Threads, Ok((Origin::Affinity, detail)))
            }
            Err(reason) => (Self::Nothing, Err(reason)),
        }
    }

    fn read(&self, threads: Option<&Watched>) -> Option<u32> {
        match self {
            Self::Threads => threads?.allowed_cpus(),
            Self::Process(id) => affinity(*id).map(|cpus| cpus.count()),
            Self::Cpuset(file) => file.read(cpu_list_count).ok(),
            Self::Nothing => None,
        }
    }
}

impl Limits {
    /// Opens what is needed for the limit. Also returns where the quota and the allowed CPUs come
    /// from.
    pub(super) fn open(
        process: Option<&Process>,
        threads: Option<&Watched>,
        places: &Result<Places, String>,
    ) -> (Self, Found, Found) {
        let (quotas, quota_found) = match places {
            Ok(places) => Quotas::open(places),
            Err(reason) => (Quotas::default(), Err(reason.clone())),
        };
        let (cpus_by, cpus_found) = CpusBy::open(process, threads, places);
        let limits = Self {
            quotas,
            cpus_by,
            cpus: None,
            readings: 0,
            last: (None, None),
        };
        (limits, quota_found, cpus_found)
    }

    /// Returns the most cores that can be used, and the period of the lowest quota.
    pub(super) fn read(
        &mut self,
        threads: Option<&Watched>,
    ) -> (Option<CoresLimit>, Option<Duration>) {
        if self.cpus.is_none() || self.readings >= CPUS_READINGS {
            // Without a thread to read from, the last value stays.
            self.cpus = self.cpus_by.read(threads).or(self.cpus);
            self.readings = 0;
        }
        self.readings += 1;
        let cpus = self.cpus.map(|cpus| cpus.saturating_mul(1000));
        let (quota, period) = self.quotas.read().unzip();
        self.last = (lower(quota, cpus), period);
        self.last
    }

    /// Returns the last result, for a reading that leaves the limits out.
    pub(super) fn last(&mut self) -> (Option<CoresLimit>, Option<Duration>) {
        self.readings = self.readings.saturating_add(1);
        self.last
    }
}

/// Returns the lower of two limits in thousandths of a core.
fn lower(quota: Option<u32>, cpus: Option<u32>) -> Option<CoresLimit> {
    let limit = |millicores, by| CoresLimit { millicores, by };
    match (quota, cpus) {
        (Some(quota), Some(cpus)) if quota >= cpus => Some(limit(cpus, LimitedBy::AllowedCpus)),
        (Some(quota), _) => Some(limit(quota, LimitedBy::Quota)),
        (None, cpus) => cpus.map(|cpus| limit(cpus, LimitedBy::AllowedCpus)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_of_quota_and_cpus_is_the_limit() {
        let told = |quota, cpus| lower(quota, cpus).map(|it| (it.millicores, it.by));
        assert_eq!(told(None, None), None);
        assert_eq!(told(Some(500), None), Some((500, LimitedBy::Quota)));
        assert_eq!(told(None, Some(2000)), Some((2000, LimitedBy::AllowedCpus)));
        assert_eq!(told(Some(1500), Some(2000)), Some((1500, LimitedBy::Quota)));
        assert_eq!(
            told(Some(3000), Some(2000)),
            Some((2000, LimitedBy::AllowedCpus))
        );
    }
}
