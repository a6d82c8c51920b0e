//! The flags of the commands that can be recorded: the file, its maximal size, and what is recorded
//! of requests.

use http::HeaderName;
use slackwater_config::Fault;
use slackwater_config::holds_secrets;
use slackwater_config::toml_reader::values::bytes;
use slackwater_proxy::record::Writing;
use slackwater_recording::Request;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::DeValue;

/// Flags of the commands that can be recorded.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RecordArgs {
    /// Record every policy's events and picks for `slackwater sim replay`. If FILE exists, `demo`
    /// refuses, and `serve` writes FILE.2, FILE.3…
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Size at which the recording ends, 64KiB to 4095MiB
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "record", value_parser = size)]
    record_max: u32,
    /// Overwrite an existing file
    #[arg(long, requires = "record")]
    record_force: bool,
    /// Record also each request's method, status and body sizes
    #[arg(long, requires = "record")]
    record_requests: bool,
    /// Record also this request header, up to 64 bytes; up to 8 times; never one with secrets
    #[arg(long, value_name = "NAME", requires = "record", value_parser = field)]
    record_header: Vec<HeaderName>,
}

/// Space for the heads of a few streams, and some events.
const SIZE_MIN: u32 = 64 << 10;

fn size(text: &str) -> Result<u32, String> {
    let size = bytes(&DeValue::String(text.into())).ok();
    size.filter(|size| *size >= SIZE_MIN)
        .ok_or_else(|| "expected a size from 64KiB to 4095MiB, such as \"256MiB\"".to_owned())
}

/// Checks the name of a field that may be recorded.
fn field(name: &str) -> Result<HeaderName, String> {
    let field = HeaderName::try_from(name);
    let field = field.map_err(|_| "expected the name of a field, such as x-tenant".to_owned())?;
    if field.as_str().len() > Request::TEXT_MAX {
        return Err(format!(
            "expected a name of at most {} bytes",
            Request::TEXT_MAX
        ));
    }
    if holds_secrets(&field) {
        return Err("it holds secrets, which are never recorded".to_owned());
    }
    Ok(field)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// How to handle a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Fail: a person is there who can name another file.
    Refused,
    /// Keep it, unless it may be overwritten, and record into the first of `FILE.2` to `FILE.99`
    /// that does not exist. A process that is started again, perhaps after a crash, must serve all
    /// the same.
    Kept,
    /// Keep it as above, but never overwrite it: the process that this one replaces still writes to
    /// it.
    InUse,
}

impl RecordArgs {
    /// Opens the file and starts to write; `None` if nothing is to be recorded.
    ///
    /// # Errors
    ///
    /// The file exists and the handling is `Refused`, or it cannot be written; more fields are
    /// named than can be recorded; the system has no thread left.
    pub(crate) fn start(&self, existing: Existing) -> Result<Option<Writing>, Fault> {
        let Some(path) = &self.record else {
            return Ok(None);
        };
        let fields = self.fields()?;
        let is_forced = self.record_force && existing != Existing::InUse;
        if is_forced || existing == Existing::Refused {
            return Writing::start(path, self.record_max, is_forced, fields).map(Some);
        }
        let others = (2..100).map(|number| numbered(path, number));
        let mut paths = core::iter::once(path.clone()).chain(others);
        let Some(free) = paths.find(|path| path.symlink_metadata().is_err()) else {
            let path = path.display();
            tracing::error!(
                %path,
                remedy = "move recordings away",
                "not recording: the file and 98 numbered ones exist"
            );
            return Ok(None);
        };
        tracing::info!(path = %free.display(), "recording");
        Writing::start(&free, self.record_max, false, fields).map(Some)
    }

    /// The header fields of requests that are recorded in addition; `None` if no requests are
    /// recorded.
    fn fields(&self) -> Result<Option<Arc<[HeaderName]>>, Fault> {
        let mut fields = Vec::new();
        for field in &self.record_header {
            if !fields.contains(field) {
                fields.push(field.clone());
            }
        }
        if fields.len() > Request::FIELDS_MAX {
            return Err(Fault::usage(format!(
                "--record-header: {} fields are named, of which at most {} are recorded",
                fields.len(),
                Request::FIELDS_MAX
            )));
        }
        let is_wanted = self.record_requests || !fields.is_empty();
        Ok(is_wanted.then(|| fields.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_recording::file::{End, Ending, read};
    use std::fs;

    /// A temporary file of the test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("slackwater-record-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn bytes(&self) -> Vec<u8> {
            fs::read(&self.0).expect("it was written")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn existing_file_is_refused_or_kept_beside_the_new_one() {
        let scratch = Scratch::new("beside");
        let args = |is_forced| RecordArgs {
            record: Some(scratch.0.clone()),
            record_max: u32::MAX,
            record_force: is_forced,
            ..RecordArgs::default()
        };
        let beside = [2, 3, 4].map(|number| Scratch(numbered(&scratch.0, number)));
        let start = |is_forced, existing| {
            let writing = args(is_forced).start(existing).expect("it can be written");
            drop(writing.expect("there is a free one"));
        };
        let are_there = || beside.each_ref().map(|it| it.0.exists());
        start(false, Existing::Kept);
        assert!(scratch.0.exists() && are_there() == [false; 3]);
        let first = scratch.bytes();
        start(false, Existing::Kept);
        start(false, Existing::InUse);
        assert_eq!(are_there(), [true, true, false]);
        start(true, Existing::InUse);
        assert_eq!(are_there(), [true; 3], "its predecessor still writes it");
        assert_eq!(scratch.bytes(), first);
        assert!(args(false).start(Existing::Refused).is_err());
        fs::write(&scratch.0, "mine").expect("it can be written");
        start(true, Existing::Kept);
        assert_ne!(scratch.bytes(), b"mine");
        for recorded in &beside {
            let read = read(&recorded.bytes()).expect("a recording");
            assert_eq!(read.end, Ending::EndBlock(End::Complete));
        }
        let nothing = RecordArgs::default().start(Existing::Kept);
        assert!(nothing.expect("nothing to do").is_none());
    }

    #[test]
    fn duplicate_fields_count_once_and_secret_ones_are_refused() {
        for refused in [
            "authorization",
            "Cookie",
            "set-cookie",
            "proxy-authorization",
        ] {
            let told = field(refused).expect_err(refused);
            assert!(told.contains("secrets"), "{told}");
        }
        assert!(field("x tenant").is_err());
        assert!(field(&"x".repeat(65)).is_err());
        let args = |names: &[&str], requests| RecordArgs {
            record_header: names
                .iter()
                .map(|name| field(name).expect("a name"))
                .collect(),
            record_requests: requests,
            ..RecordArgs::default()
        };
        let fields = |names: &[&str], requests| {
            let fields = args(names, requests).fields()?;
            Ok::<_, Fault>(fields.map(|fields| fields.len()))
        };
        assert_eq!(fields(&[], false).expect("few"), None);
        assert_eq!(fields(&[], true).expect("few"), Some(0));
        assert_eq!(fields(&["x-a", "X-A", "x-b"], false).expect("few"), Some(2));
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let told = fields(&many, false).expect_err("nine").to_string();
        assert!(
            told.contains("9 fields are named, of which at most 8"),
            "{told}"
        );
    }
}
