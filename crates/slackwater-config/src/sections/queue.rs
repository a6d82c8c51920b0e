//! `[queue]`: how many requests a service works on at once, and how many wait.

use super::assemble::{count, timeout};
use super::show::{quoted, write_section};
use crate::toml_reader::Reader;
use crate::toml_reader::values::{show_duration, whole, within};
use core::fmt::{self, Display};
use core::time::Duration;

/// How many requests a service works on at once, and how many wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Requests in flight at most, over all workers: 1 to 1,048,576. Default none: there is no limit, and nobody waits.
    /// Each worker has its share, and at least 1.
    pub requests_max: Option<u32>,
    /// Requests that wait for a place at most, over all workers: 0 to 1,048,576, default 1,024. 0: nobody waits.
    pub waiting_max: u32,
    /// For which a request waits at most: 0 to 1 hour, default 1 s. 0: nobody waits.
    pub wait_max: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            requests_max: None,
            waiting_max: 1024,
            wait_max: Duration::from_secs(1),
        }
    }
}

impl QueueSettings {
    /// Reads `[queue]`, or `[services.NAME.queue]` where `prefix` says so.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        const MOST: u32 = 1 << 20;
        let default = Self::default();
        let key = |name: &str| format!("{prefix}queue.{name}");
        let requests_max = reader.setting(
            &key("requests_max"),
            default.requests_max,
            "a number from 1 to 1048576, or \"none\"",
            |value| match value.as_str() {
                Some("none") => Ok(None),
                _ => whole(value)
                    .and_then(|number| within(number, &(1..=MOST)))
                    .map(Some),
            },
        );
        let hour = Duration::from_hours(1);
        let waits = Duration::ZERO..=hour;
        Self {
            requests_max: requests_max.value,
            waiting_max: count(reader, &key("waiting_max"), default.waiting_max, 0..=MOST),
            wait_max: timeout(reader, &key("wait_max"), default.wait_max, &waits),
        }
    }

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str) -> fmt::Result {
        let requests_max = self.requests_max;
        let fields: [(&str, &dyn Display); 3] = [
            (
                "requests_max",
                &requests_max.map_or_else(|| quoted("none"), |most| most.to_string()),
            ),
            ("waiting_max", &self.waiting_max),
            ("wait_max", &quoted(show_duration(self.wait_max))),
        ];
        write_section(to, &format!("{prefix}queue"), &fields)
    }
}
