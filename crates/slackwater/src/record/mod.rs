//! `--record FILE`: what the policies of a process are told and say, written into a file, for `slackwater sim replay`.
//!
//! A [`Recorder`] goes around each policy of each worker (`slackwater_sim::recording`); blocks of events go by a bounded queue
//! to a thread that writes them (`writer`). Nobody waits for it: where the queue is full, or the file is as large as it may
//! be, the recording ends there, and says so. What is written up to there is whole. The file is described in `docs/replay.md`;
//! `format` writes and reads its blocks, `read` all of it.

mod format;
mod read;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use read::{Ending, RecordedStream, Recording, read};
pub(crate) use writer::{Recorder, Writing};

use crate::fault::Fault;
use crate::toml_reader::values::bytes;
use std::path::{Path, PathBuf};
use toml::de::DeValue;

/// Flags of the commands that can be recorded.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RecordArgs {
    /// Record what policies are told and which replicas they pick, for `slackwater sim replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The recording ends when the file is this large, from 64KiB to 4095MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "record", value_parser = size)]
    record_max: u32,
    /// Write the recording over a file that is there already
    #[arg(long, requires = "record")]
    record_force: bool,
}

/// Room for the heads of a few streams, and some events.
const SIZE_MIN: u32 = 64 << 10;

fn size(text: &str) -> Result<u32, String> {
    let size = bytes(&DeValue::String(text.into())).ok();
    size.filter(|size| *size >= SIZE_MIN)
        .ok_or_else(|| "expected a size from 64KiB to 4095MiB, such as \"256MiB\"".to_owned())
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

impl RecordArgs {
    /// Opens the file and begins to write; `None` if nothing is to be recorded.
    ///
    /// # Errors
    ///
    /// The file is there already, or cannot be written; the system gives no thread.
    ///
    /// A process that takes over from another one with the same arguments, which still writes, has a file of its own: the
    /// first of `FILE.2` to `FILE.99` that is not there.
    pub(crate) fn start(&self, takes_over: bool) -> Result<Option<Writing>, Fault> {
        let Some(path) = &self.record else {
            return Ok(None);
        };
        let mut path = path.clone();
        if takes_over {
            let mut others = (2..100).map(|number| numbered(&path, number));
            if let Some(free) = others.find(|other| other.symlink_metadata().is_err()) {
                path = free;
            }
        }
        Writing::start(&path, self.record_max, self.record_force && !takes_over).map(Some)
    }
}
