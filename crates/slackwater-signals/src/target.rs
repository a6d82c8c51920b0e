//! Whose CPU is looked at.

use core::fmt;
use std::path::PathBuf;

/// Whose CPU is looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// The process that asks.
    ThisProcess,
    /// Another process, by its id as this process sees it. Its children are not part of it.
    Process(u32),
    /// The cgroup that this process is in, with everybody else in it: in a container, usually the
    /// container.
    OwnCgroup,
    /// A cgroup by its directory, such as `/sys/fs/cgroup/system.slice/web.service`; where cgroups
    /// are of version 1, its directory below the `cpu` controller. Groups within it are part of it.
    Cgroup(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str("this process"),
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::OwnCgroup => f.write_str("this process's cgroup"),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
        }
    }
}
