//! Reads the access log.

use core::time::Duration;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A request in the access log of `serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Arrival, since 1970.
    pub(crate) began: Duration,
    /// Time of its last byte to the client.
    pub(crate) ended: Duration,
    pub(crate) replica: Option<String>,
    pub(crate) status: u64,
    pub(crate) end: String,
    pub(crate) attempts: u64,
    /// The whole line.
    pub(crate) text: String,
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let read: Value = serde_json::from_str(text).ok()?;
        let began = since_1970(read["time"].as_str()?)?;
        Some(Self {
            began,
            ended: began + Duration::from_micros(read["total_us"].as_u64()?),
            replica: read["replica"].as_str().map(str::to_owned),
            status: read["status"].as_u64()?,
            end: read["end"].as_str()?.to_owned(),
            attempts: read["attempts"].as_u64()?,
            text: text.to_owned(),
        })
    }

    /// Whether the client did not receive a replica's answer completely.
    pub(crate) fn is_failure(&self) -> bool {
        self.status >= 500 || self.end != "complete"
    }
}

/// Reads all lines; an invalid line is an error.
pub(crate) fn read(file: &Path) -> Result<Vec<Line>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let parse =
        |line: &str| Line::parse(line).ok_or_else(|| format!("{}: {line:?}", file.display()));
    text.lines().map(parse).collect()
}

/// Parses `2026-11-21T19:54:11.000123Z` as a time since 1970.
fn since_1970(text: &str) -> Option<Duration> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (clock, fraction) = time.split_once('.')?;
    let mut clock = clock.split(':').map(str::parse::<u64>);
    let (hour, minute, second) = (
        clock.next()?.ok()?,
        clock.next()?.ok()?,
        clock.next()?.ok()?,
    );
    // Days before each month, in a year that begins in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = days.checked_sub(719_468)? * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(Duration::from_secs(seconds) + Duration::from_micros(fraction.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, micros) in [
            ("1970-01-01T00:00:00.000007Z", 7),
            ("2000-02-29T00:00:00.000000Z", 951_782_400_000_000),
            ("2026-12-31T23:59:59.000042Z", 1_798_761_599_000_042),
        ] {
            assert_eq!(
                since_1970(text),
                Some(Duration::from_micros(micros)),
                "{text}"
            );
        }
        assert_eq!(since_1970("yesterday"), None);
    }

    #[test]
    fn incomplete_or_5xx_responses_are_failures() {
        let line = |status: u16, end: &str| {
            let text = format!(
                "{{\"time\":\"2026-12-31T23:59:59.000042Z\",\"total_us\":8,\"status\":{status},\"end\":\"{end}\",\"method\":\"GET\",\"attempts\":1}}"
            );
            Line::parse(&text).unwrap()
        };
        assert!(!line(200, "complete").is_failure());
        assert!(!line(404, "complete").is_failure());
        assert!(line(502, "complete").is_failure());
        assert!(line(200, "broken").is_failure());
        assert!(line(0, "client_gone").is_failure());
        let complete = line(200, "complete");
        assert_eq!(complete.began + Duration::from_micros(8), complete.ended);
        assert_eq!(Line::parse("{}"), None);
    }
}
