//! Which process or cgroup an agent's server is: whose CPU tells how much it can carry.

use super::files::{file_name, read_file_name};
use crate::toml_reader::Reader;
use crate::toml_reader::values::text;
use std::path::PathBuf;

const CGROUP_EXPECTED: &str =
    "the cgroup's directory from the root, as in \"/sys/fs/cgroup/system.slice/web.service\"";

/// What is known of the server as a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerProcess {
    /// Nothing: latency alone tells what it can carry.
    #[default]
    Unknown,
    /// A file has its process id. Its children are not part of it.
    PidFile(PathBuf),
    /// The directory of the cgroup that it is in, with all that are in there.
    Cgroup(PathBuf),
}

impl ServerProcess {
    /// The keys `replica.pid_file` and `replica.cgroup`, of which there is one at most.
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
