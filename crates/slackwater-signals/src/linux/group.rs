//! The files of a cgroup that are read: quotas up to the root, throttling, pressure, CPU time.

use super::places::{Places, Version};
use super::small_file::{SmallFile, kept};
use crate::finding::{Found, Origin};
use crate::parse::{
    PerPeriod, QuotaUs, cfs_period, cfs_quota, cpu_list_count, cpu_max, cpu_stat, only_number,
    pressure_some,
};
use crate::reading::Throttled;
use core::time::Duration;
use rustix::io::Errno;
use std::path::Path;

/// The quota of one group.
#[derive(Debug)]
enum Quota {
    Two(SmallFile),
    One { quota: SmallFile, period: SmallFile },
}

impl Quota {
    fn open(version: Version, group: &Path) -> Result<(Self, PerPeriod), String> {
        match version {
            Version::Two => {
                let (file, value) = kept(&group.join("cpu.max"), cpu_max)?;
                Ok((Self::Two(file), value))
            }
            Version::One => {
                let (quota, QuotaUs(quota_us)) = kept(&group.join("cpu.cfs_quota_us"), cfs_quota)?;
                let (period, period_us) = kept(&group.join("cpu.cfs_period_us"), cfs_period)?;
                let value = PerPeriod {
                    quota_us,
                    period_us,
                };
                Ok((Self::One { quota, period }, value))
            }
        }
    }

    fn read(&self) -> Result<PerPeriod, Errno> {
        match self {
            Self::Two(file) => file.read(cpu_max),
            Self::One { quota, period } => Ok(PerPeriod {
                quota_us: quota.read(cfs_quota)?.0,
                period_us: period.read(cfs_period)?,
            }),
        }
    }
}

/// The quotas of a group and its ancestors, of which the lowest applies. In a container, groups
/// above its root cannot be seen.
#[derive(Debug, Default)]
pub(super) struct Quotas(Vec<Quota>);

impl Quotas {
    pub(super) fn open(places: &Places) -> (Self, Found) {
        let mut quotas = Self::default();
        let mut lowest: Option<(u32, &Path)> = None;
        let mut reason = None;
        for group in places.upwards() {
            match Quota::open(places.version, group) {
                Ok((quota, value)) => {
                    let limit = value.millicores();
                    if let Some(limit) = limit.filter(|it| lowest.is_none_or(|(low, _)| *it < low))
                    {
                        lowest = Some((limit, group));
                    }
                    quotas.0.push(quota);
                }
                Err(why) => reason = reason.or(Some(why)),
            }
        }
        let file = match places.version {
            Version::Two => "cpu.max",
            Version::One => "cpu.cfs_quota_us",
        };
        let found = match (lowest, reason) {
            (Some((limit, group)), _) => Ok(format!(
                "{file} of {}: {limit} thousandths of a core",
                group.display()
            )),
            (None, None) => Ok(format!("{file} of {}: no limit now", places.cpu.display())),
            (None, Some(_)) if !quotas.0.is_empty() => Ok(format!(
                "{file} above {}: no limit now",
                places.cpu.display()
            )),
            (None, Some(reason)) => Err(reason),
        };
        let found = found.map(|detail| (Origin::CgroupQuota, detail));
        (quotas, found)
    }

    /// Returns the lowest quota in thousandths of a core, and its period; `None`: no limit, or none
    /// can be read.
    pub(super) fn read(&self) -> Option<(u32, Duration)> {
        let quotas = self.0.iter().filter_map(|quota| quota.read().ok());
        let limits = quotas.filter_map(|it| Some((it.millicores()?, it.period())));
        limits.min()
    }
}

/// Opens the `cpu.stat` that has throttling: the group's own, or that of an ancestor if only an
/// ancestor has a quota.
pub(super) fn throttling(places: &Places) -> Result<(SmallFile, (Origin, String)), String> {
    let has_quota = |group: &&Path| {
        let quota = Quota::open(places.version, group).ok();
        quota.is_some_and(|(_, value)| value.quota_us.is_some())
    };
    let group = places.upwards().find(has_quota).unwrap_or(&places.cpu);
    let path = group.join("cpu.stat");
    let (file, stat) = kept(&path, cpu_stat)?;
    let path = path.display();
    match stat.throttled {
        Some(_) => Ok((file, (Origin::CgroupStat, path.to_string()))),
        None => Err(format!("{path} has no periods: no cpu controller there")),
    }
}

pub(super) fn read_throttled(file: &SmallFile) -> Option<Throttled> {
    file.read(cpu_stat).ok()?.throttled
}

/// The CPU time of a whole group.
#[derive(Debug)]
pub(super) enum GroupUsed {
    Stat(SmallFile),
    Accounting(SmallFile),
}

impl GroupUsed {
    pub(super) fn open(places: &Places) -> Result<(Self, (Origin, String)), String> {
        match (places.version, &places.accounting) {
            (Version::Two, _) => {
                let path = places.cpu.join("cpu.stat");
                let used = |text: &[u8]| cpu_stat(text)?.used;
                let (file, _) = kept(&path, used)?;
                let found = (Origin::CgroupStat, path.display().to_string());
                Ok((Self::Stat(file), found))
            }
            (Version::One, Some(accounting)) => {
                let path = accounting.join("cpuacct.usage");
                let (file, _) = kept(&path, only_number)?;
                let found = (Origin::CgroupAccounting, path.display().to_string());
                Ok((Self::Accounting(file), found))
            }
            (Version::One, None) => Err(format!(
                "no group of the cpuacct controller beside {}",
                places.cpu.display()
            )),
        }
    }

    pub(super) fn read(&self) -> Option<Duration> {
        match self {
            Self::Stat(file) => file.read(cpu_stat).ok()?.used,
            Self::Accounting(file) => file.read(only_number).ok().map(Duration::from_nanos),
        }
    }
}

/// Opens the pressure of the group, or of the machine if the group has none.
pub(super) fn pressure(
    places: &Result<Places, String>,
) -> Result<(SmallFile, (Origin, String)), String> {
    let group = places.as_ref().ok().and_then(|it| it.pressure.as_ref());
    if let Some(path) = group.map(|group| group.join("cpu.pressure"))
        && let Ok((file, _)) = kept(&path, pressure_some)
    {
        return Ok((file, (Origin::CgroupPressure, path.display().to_string())));
    }
    let path = Path::new("/proc/pressure/cpu");
    let (file, _) = kept(path, pressure_some).map_err(|reason| {
        format!("{reason}; a kernel without CONFIG_PSI, or one that needs psi=1 at boot")
    })?;
    let detail = format!("{}: the whole machine", path.display());
    Ok((file, (Origin::MachinePressure, detail)))
}

pub(super) fn read_pressure(file: &SmallFile) -> Option<Duration> {
    file.read(pressure_some).ok()
}

/// Opens the CPUs of a group's cpuset, or of its nearest ancestor that has one.
pub(super) fn cpuset(places: &Places) -> Result<(SmallFile, String), String> {
    let mut reason = None;
    for group in places.upwards() {
        for name in ["cpuset.cpus.effective", "cpuset.effective_cpus"] {
            let path = group.join(name);
            match kept(&path, cpu_list_count) {
                Ok((file, _)) => return Ok((file, path.display().to_string())),
                Err(why) => reason = reason.or(Some(why)),
            }
        }
    }
    Err(reason.unwrap_or_else(|| "no cpuset".to_owned()))
}

/// Returns the current weight of a group.
pub(super) fn weight(places: &Places) -> Found {
    let (name, usual) = match places.version {
        Version::Two => ("cpu.weight", 100),
        Version::One => ("cpu.shares", 1024),
    };
    let path = places.cpu.join(name);
    let (_, weight) = kept(&path, only_number)?;
    let detail = format!("{} {weight}, usually {usual}", path.display());
    Ok((Origin::CgroupWeight, detail))
}
