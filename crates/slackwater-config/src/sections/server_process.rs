//! The server's process or cgroup, whose CPU use shows an agent the server's capacity.

use super::files::{file_name, read_file_name};
use crate::toml_reader::Reader;
use crate::toml_reader::values::text;
use std::path::PathBuf;

const CGROUP_EXPECTED: &str =
    "the cgroup's directory from the root, as in \"/sys/fs/cgroup/system.slice/web.service\"";

/// The server's process, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerProcess {
    /// Unknown: only latency shows the server's capacity.
    #[default]
    Unknown,
    /// A file contains its process id. Child processes do not count.
    PidFile(PathBuf),
    /// The directory of its cgroup, including child cgroups.
    Cgroup(PathBuf),
}

impl ServerProcess {
    /// Reads the keys `replica.pid_file` and `replica.cgroup`, which exclude each other.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let pid_file = reader.take("replica.pid_file");
        let cgroup = reader.take("replica.cgroup");
        match (pid_file, cgroup) {
            (None, None) => Self::Unknown,
            (Some(item), None) => {
                let file = read_file_name(reader, &item);
                file.map_or(Self::Unknown, Self::PidFile)
            }
            (None, Some(item)) => {
                let read = item.read(|value| text(value, CGROUP_EXPECTED), CGROUP_EXPECTED);
                let directory = read.and_then(|written| match written.strip_prefix('/') {
                    Some(_) => Ok(PathBuf::from(written)),
                    None => {
                        Err(item.mistake(format!("found {written:?}, expected {CGROUP_EXPECTED}")))
                    }
                });
                reader.note(directory).map_or(Self::Unknown, Self::Cgroup)
            }
            (Some(_), Some(item)) => {
                reader.add_mistake(item.mistake(
                    "found beside replica.pid_file, expected one of the two: the server is one \
                     process, or all that are in a cgroup",
                ));
                Self::Unknown
            }
        }
    }

    /// The key and its value in TOML.
    pub(super) fn field(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Unknown => None,
            Self::PidFile(file) => Some(("pid_file", file_name(file))),
            Self::Cgroup(directory) => Some(("cgroup", file_name(directory))),
        }
    }
}
