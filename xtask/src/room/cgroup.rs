//! Groups of processes with a share and a quota of the CPU: the kernel's `cpu` controller, in
//! version 1 or 2 of cgroups.
//!
//! All groups are below one of our own, which is removed at the end.

use crate::loopback::processes::wait_for;
use core::time::Duration;
use rustix::process::{Pid, getpid};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Shares of every new group, in the unit of version 1.
pub(super) const SHARES: u64 = 1_024;

/// The default period of the kernel and of most container runtimes.
pub(super) const PERIOD_MS: u64 = 100;

const MOUNTS: &str = "/proc/self/mounts";
const MEMBERS: &str = "cgroup.procs";

/// Time from the end of a group's processes until the kernel allows its removal.
const REMOVE_MAX: Duration = Duration::from_secs(5);

/// The version, which determines the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The mount point of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    root: PathBuf,
    version: Version,
}

impl Hierarchy {
    /// Looks for it among the mounts; `controllers` reads the list of controllers in version 2.
    fn find(mounts: &str, controllers: impl Fn(&Path) -> String) -> Option<Self> {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (root, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let root = PathBuf::from(root);
            let version = match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => Version::One,
                "cgroup2" if has_word(&controllers(&root), "cpu") => Version::Two,
                _ => return None,
            };
            Some(Self { root, version })
        })
    }

    /// The group of a process; `groups` is its `/proc/PID/cgroup`.
    fn group_of(&self, groups: &str) -> PathBuf {
        let path = groups.lines().find_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, path) = line.split_once(':')?;
            let is_ours = match self.version {
                Version::One => controllers.split(',').any(|controller| controller == "cpu"),
                Version::Two => controllers.is_empty(),
            };
            is_ours.then_some(path)
        });
        let path = path.unwrap_or_default().trim_start_matches('/');
        self.root.join(path)
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|found| found == word)
}

/// Our own group, to which this process belongs until it is dropped.
#[derive(Debug)]
pub(super) struct Cgroups {
    top: Group,
    /// The previous group of this process.
    home: PathBuf,
    apparatus: Group,
}

impl Cgroups {
    /// Creates the group with these shares of the CPU, and a group `apparatus` in it for this
    /// process and everything that it starts.
    ///
    /// # Errors
    ///
    /// Fails if there is no such controller, or if we may not use it.
    pub(super) fn new(shares: u64, apparatus_shares: u64) -> Result<Self, String> {
        let mounts = fs::read_to_string(MOUNTS).map_err(|error| format!("{MOUNTS}: {error}"))?;
        let controllers =
            |root: &Path| fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let Some(hierarchy) = Hierarchy::find(&mounts, controllers) else {
            return Err("no cgroup controller cpu is mounted; mount one, such as \
                 mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu"
                .to_owned());
        };
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let home = hierarchy.group_of(&groups);
        let root = Group {
            path: hierarchy.root.clone(),
            version: hierarchy.version,
        };
        let top = root
            .group(&format!("slackwater-room-{}", std::process::id()))
            .map_err(|why| {
                format!("{why}; quotas need a cgroup controller cpu that may be written to: run it as root, where it is not mounted read-only")
            })?;
        let apparatus = top.group("apparatus");
        let cgroups = Self {
            apparatus: apparatus?,
            top,
            home,
        };
        cgroups.top.set_shares(shares)?;
        cgroups.apparatus.set_shares(apparatus_shares)?;
        cgroups.apparatus.add(getpid())?;
        Ok(cgroups)
    }

    /// Creates a group in it, with the default share.
    pub(super) fn group(&self, name: &str) -> Result<Group, String> {
        self.top.group(name)
    }

    /// Returns a function that removes all groups, once every process in them except this one has
    /// ended. For exits on which nothing is dropped.
    pub(super) fn ending(&self) -> impl FnOnce() + Send + use<> {
        let (top, home) = (self.top.path.clone(), self.home.clone());
        move || leave(&top, &home)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        leave(&self.top.path, &self.home);
    }
}

/// Moves this process out and removes the groups.
fn leave(top: &Path, home: &Path) {
    // A process that could create and join a group can also leave and remove it. A failure could
    // not be handled anyway.
    let _ = fs::write(home.join(MEMBERS), getpid().as_raw_pid().to_string());
    let _ = wait_for("groups to go", REMOVE_MAX, || Ok(remove(top).ok()));
}

/// Removes a group, the innermost first. Its files belong to the kernel, and disappear with it.
fn remove(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

/// A group of processes.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    version: Version,
}

impl Group {
    /// Creates a group inside this one, with the default share.
    pub(super) fn group(&self, name: &str) -> Result<Self, String> {
        if self.version == Version::Two {
            self.write("cgroup.subtree_control", "+cpu")?;
        }
        let path = self.path.join(name);
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            path,
            version: self.version,
        })
    }

    /// Its directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets its share of the CPU relative to other groups' under contention; 2 to 262,144.
    pub(super) fn set_shares(&self, shares: u64) -> Result<(), String> {
        match self.version {
            Version::One => self.write("cpu.shares", &shares.to_string()),
            Version::Two => self.write("cpu.weight", &weight(shares).to_string()),
        }
    }

    /// Sets the most CPU that it may use, in hundredths of a core, for periods of this many
    /// milliseconds. The kernel requires at least 1 ms per period.
    pub(super) fn set_quota(&self, percent: u64, period_ms: u64) -> Result<(), String> {
        let period = period_ms * 1_000;
        let quota = period * percent / 100;
        match self.version {
            Version::One => {
                self.write("cpu.cfs_period_us", &period.to_string())?;
                self.write("cpu.cfs_quota_us", &quota.to_string())
            }
            Version::Two => self.write("cpu.max", &format!("{quota} {period}")),
        }
    }

    /// Adds a process with all its threads.
    pub(super) fn add(&self, process: Pid) -> Result<(), String> {
        self.write(MEMBERS, &process.as_raw_pid().to_string())
    }

    /// Periods in which a process ran, and periods in which the quota was used up, since its
    /// creation.
    pub(super) fn periods(&self) -> Result<[u64; 2], String> {
        let file = self.path.join("cpu.stat");
        let text =
            fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        periods(&text).ok_or_else(|| format!("{}: no periods in {text:?}", file.display()))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let file = self.path.join(file);
        fs::write(&file, text).map_err(|error| format!("{}: {text:?}: {error}", file.display()))
    }
}

/// Shares in the unit of version 2: a new group has 100.
fn weight(shares: u64) -> u64 {
    (shares * 100 / SHARES).clamp(1, 10_000)
}

fn periods(text: &str) -> Option<[u64; 2]> {
    let number = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(found, _)| *found == name)?;
        value.parse().ok()
    };
    Some([number("nr_periods")?, number("nr_throttled")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_controller_is_found_in_cgroup_v1_and_v2() {
        let one = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n\
                   cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                   cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                   cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = Hierarchy::find(one, |_| "hugetlb\n".to_owned()).unwrap();
        assert_eq!(found.root, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(found.version, Version::One);
        let groups = "3:cpuset:/a\n2:cpu,cpuacct:/b/c\n0::/d\n";
        assert_eq!(
            found.group_of(groups),
            Path::new("/sys/fs/cgroup/cpu,cpuacct/b/c")
        );

        let two = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let found = Hierarchy::find(two, |_| "cpuset cpu io\n".to_owned()).unwrap();
        assert_eq!(found.version, Version::Two);
        assert_eq!(found.group_of("0::/\n"), Path::new("/sys/fs/cgroup/"));
        assert_eq!(
            Hierarchy::find(two, |_| "cpuset io\n".to_owned()),
            None,
            "cpuset is not cpu"
        );
    }

    #[test]
    fn shares_become_weights_and_throttled_periods_are_read() {
        assert_eq!(
            [2, 1_024, 8_192, 262_144].map(weight),
            [1, 100, 800, 10_000]
        );
        let two = "usage_usec 1\nnr_periods 31\nnr_throttled 29\nthrottled_usec 5\n";
        assert_eq!(periods(two), Some([31, 29]));
        assert_eq!(periods("usage_usec 1\n"), None);
    }
}
