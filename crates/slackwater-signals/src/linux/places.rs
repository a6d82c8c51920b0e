//! Finds the directories of a cgroup: one in version 2, one for each controller in version 1.

use super::listing;
use crate::parse::{Membership, Mount, memberships, mounts};
use rustix::fs::CWD;
use std::fs;
use std::path::{Path, PathBuf};

/// The directories of a cgroup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Places {
    pub(super) version: Version,
    /// The directory with quotas, weights, throttling and the list of threads.
    pub(super) cpu: PathBuf,
    /// Version 1: the directory where CPU time is counted.
    pub(super) accounting: Option<PathBuf>,
    /// The directory with pressure. On systems that have both versions it is the group of the same
    /// name in version 2.
    pub(super) pressure: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the name of the file that lists a group's threads.
    pub(super) fn threads_file(self) -> &'static str {
        match self {
            Self::One => "tasks",
            Self::Two => "cgroup.threads",
        }
    }
}

impl Places {
    /// Finds the places of a cgroup by its directory.
    pub(super) fn of_directory(directory: &Path) -> Result<Self, String> {
        // Dots and links would mislead the search for ancestors.
        let directory = fs::canonicalize(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        if directory.join("cgroup.controllers").exists() {
            return Ok(Self::version_two(directory));
        }
        if !directory.join("cpu.cfs_quota_us").exists() {
            return Err(format!(
                "{} is no cgroup for CPU: it has neither cgroup.controllers (version 2) nor cpu.cfs_quota_us (version 1, below the \
                 cpu controller)",
                directory.display()
            ));
        }
        let mounts = our_mounts()?;
        let of_cpu = |mount: &&Mount| mount.has("cpu") && directory.starts_with(&mount.point);
        let below = mounts.iter().find(of_cpu);
        let below = below.and_then(|mount| directory.strip_prefix(&mount.point).ok());
        // That the same name below other controllers is the same group is only a convention. All
        // common tools rely on it.
        let beside = |mount: Option<&Mount>| {
            let path = mount?.point.join(below?);
            path.is_dir().then_some(path)
        };
        let accounting = mounts.iter().find(|mount| mount.has("cpuacct"));
        let two = mounts.iter().find(|mount| mount.options.is_none());
        let accounting = if directory.join("cpuacct.usage").exists() {
            Some(directory.clone())
        } else {
            beside(accounting)
        };
        Ok(Self {
            version: Version::One,
            accounting,
            pressure: beside(two),
            cpu: directory,
        })
    }

    /// Finds the cgroup that a process is in. A container may see only a part of the hierarchies.
    /// Its own processes are then at the root of what it sees (`ours`), and other processes cannot
    /// be found.
    pub(super) fn of_process(id: u32, ours: bool) -> Result<Self, String> {
        let file = if ours {
            PathBuf::from("/proc/self/cgroup")
        } else {
            PathBuf::from(format!("/proc/{id}/cgroup"))
        };
        let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let groups = memberships(&text)
            .ok_or_else(|| format!("{} is not of the form that is known", file.display()))?;
        let mounts = our_mounts()?;
        Self::among(&groups, &mounts, ours)
    }

    fn among(groups: &[Membership], mounts: &[Mount], ours: bool) -> Result<Self, String> {
        let find = |controller: Option<&str>| {
            let mut mounts = mounts.iter();
            let mount = mounts.find(|mount| match controller {
                Some(controller) => mount.has(controller),
                None => mount.options.is_none(),
            })?;
            let group = groups.iter().find(|group| match controller {
                Some(controller) => group.controllers.iter().any(|it| it == controller),
                None => group.controllers.is_empty(),
            })?;
            let root = || ours.then(|| mount.point.clone());
            mount.directory(&group.path).or_else(root)
        };
        let two = find(None);
        match (find(Some("cpu")), two) {
            (Some(cpu), two) => Ok(Self {
                version: Version::One,
                cpu,
                accounting: find(Some("cpuacct")),
                pressure: two,
            }),
            (None, Some(two)) => Ok(Self::version_two(two)),
            (None, None) => Err(
                "its cgroup is not visible here: no mount of cgroups has it, or none is there"
                    .to_owned(),
            ),
        }
    }

    fn version_two(directory: PathBuf) -> Self {
        Self {
            version: Version::Two,
            accounting: None,
            pressure: Some(directory.clone()),
            cpu: directory,
        }
    }

    /// Returns the group's directory and those of its ancestors, as far up as can be seen.
    pub(super) fn upwards(&self) -> impl Iterator<Item = &Path> {
        let is_group = |path: &&Path| path.join("cgroup.procs").exists();
        let above = self.cpu.ancestors().skip(1).take_while(is_group);
        core::iter::once(self.cpu.as_path()).chain(above)
    }

    /// Opens the list of its threads.
    pub(super) fn listing(&self) -> Result<listing::GroupListing, String> {
        let directory = listing::directory(CWD, &self.cpu)
            .map_err(|error| format!("{}: {error}", self.cpu.display()))?;
        let file = self.version.threads_file();
        Ok(listing::GroupListing::new(directory, file))
    }
}

/// Reads the hierarchies that this process sees.
fn our_mounts() -> Result<Vec<Mount>, String> {
    let text = fs::read("/proc/self/mountinfo")
        .map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    Ok(mounts(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(groups: &str, mountinfo: &str, ours: bool) -> Result<Places, String> {
        let groups = memberships(groups.as_bytes()).unwrap();
        Places::among(&groups, &mounts(mountinfo.as_bytes()), ours)
    }

    const TWO: &str = "30 23 0:25 / /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
    const ONE: &str =
        "31 30 0:28 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn version_two_has_one_directory() {
        let places = among("0::/system.slice/web.service\n", TWO, false).unwrap();
        let directory = PathBuf::from("/sys/fs/cgroup/system.slice/web.service");
        assert_eq!(places, Places::version_two(directory));
    }

    #[test]
    fn hybrid_setup_uses_the_version_of_the_cpu_controller() {
        let both = format!("{ONE}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        let places = among("2:cpu,cpuacct:/docker/ab/x\n0::/other\n", &both, false).unwrap();
        assert_eq!(places.version, Version::One);
        let cpu = Path::new("/sys/fs/cgroup/cpu,cpuacct/x");
        assert_eq!(places.cpu, cpu, "below what is mounted of the hierarchy");
        assert_eq!(places.accounting.as_deref(), Some(cpu));
        let other = Path::new("/sys/fs/cgroup/unified/other");
        assert_eq!(places.pressure.as_deref(), Some(other));
    }

    /// A container without a cgroup namespace, with its own group mounted as the root.
    #[test]
    fn invisible_own_group_falls_back_to_the_mounted_root() {
        let places = among("0::/../elsewhere\n", TWO, true).unwrap();
        assert_eq!(places.cpu, Path::new("/sys/fs/cgroup"));
        let others = among("0::/../elsewhere\n", TWO, false).unwrap_err();
        assert!(others.contains("not visible"), "{others}");
        assert!(among("0::/\n", "", true).is_err());
    }

    #[test]
    fn error_for_non_cgroup_directory_names_missing_files() {
        let reason = Places::of_directory(Path::new("/proc/self")).unwrap_err();
        assert!(reason.contains("neither cgroup.controllers"), "{reason}");
        let reason = Places::of_directory(Path::new("/no/such/place")).unwrap_err();
        assert!(reason.contains("/no/such/place"), "{reason}");
    }
}
