//! The origin of a number: commit, date and machine, for `results/`.

use crate::command::first_line;
use std::fs;
use std::sync::OnceLock;

/// The commit, and whether there are uncommitted changes. Determined at the first call, because
/// people continue to work while a chore runs for an hour.
pub(crate) fn commit() -> String {
    static COMMIT: OnceLock<String> = OnceLock::new();
    let look = || {
        let commit = head();
        let changed = first_line("git", &["status", "--porcelain", "--untracked-files=no"]);
        let note = if changed.is_empty() {
            ""
        } else {
            ", with changes"
        };
        format!("{commit}{note}")
    };
    COMMIT.get_or_init(look).clone()
}

/// The commit without that.
pub(crate) fn head() -> String {
    first_line("git", &["rev-parse", "--short=12", "HEAD"])
}

/// The arguments of this process, of which the first is the name of its chore.
pub(crate) fn arguments() -> impl Iterator<Item = String> {
    let arguments = std::env::args_os().skip(1);
    arguments.map(|argument| argument.to_string_lossy().into_owned())
}

/// Today.
pub(crate) fn date() -> String {
    first_line("date", &["-u", "+%Y-%m-%d"])
}

/// Processor, cores and kernel.
pub(crate) fn machine() -> String {
    format!(
        "{}, {} cores, Linux {}",
        processor(),
        std::thread::available_parallelism().map_or(1, usize::from),
        fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim(),
    )
}

fn processor() -> String {
    let facts = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = facts
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    model.and_then(|model| model.split_once(':')).map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}
