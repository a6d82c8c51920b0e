//! The process or cgroup whose CPU is read.

use core::fmt;
use std::path::PathBuf;

/// The process or cgroup whose CPU is read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// The calling process.
    ThisProcess,
    /// Another process, by its id as this process sees it. Its children are not part of it.
    Process(u32),
    /// The cgroup that this process is in, with all other processes in it: in a container, usually
    /// the container.
    OwnCgroup,
    /// A cgroup by its directory, such as `/sys/fs/cgroup/system.slice/web.service`. For cgroups of
    /// version 1, it is the directory below the `cpu` controller. Groups within it are part of it.
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
