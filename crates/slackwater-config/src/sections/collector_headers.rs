//! Headers for the trace collector or the control plane, such as a token. They are secrets, which
//! are neither shown nor logged.

use super::files::{exposed, read_file_name};
use crate::toml_reader::{Item, Reader, Remark, read_bounded};
use http::header::{self, HeaderName, HeaderValue};
use std::path::{Path, PathBuf};

const FIELDS_MAX: usize = 64;

/// Headers that every request already has.
const OWN: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::USER_AGENT,
];

/// Where the headers come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CollectorHeaders {
    /// No headers.
    #[default]
    None,
    /// A file, read again for each use.
    File(PathBuf),
    /// An environment variable.
    Fields(Vec<(HeaderName, HeaderValue)>),
}

impl CollectorHeaders {
    /// Returns the headers of the file that a key names. It is read once, so that mistakes are
    /// found at the start.
    pub(super) fn of_key(
        reader: &mut Reader<'_>,
        item: &Item<'_>,
        remarks: &mut Vec<Remark>,
    ) -> Self {
        let Some(file) = read_file_name(reader, item) else {
            return Self::None;
        };
        remarks.extend(exposed(item, &file));
        let headers = Self::File(file);
        let read = headers.read().map_err(|why| item.mistake(why));
        reader.note(read);
        headers
    }

    /// Returns the current headers.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or has no valid headers. The message contains nothing of
    /// the file.
    pub fn read(&self) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::File(file) => read_file(file),
            Self::Fields(fields) => Ok(fields.clone()),
        }
    }
}

/// Reads one header per line, `name: value`; skips empty lines and lines that begin with `#`.
fn read_file(file: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let told = |why: String| format!("{}: {why}", file.display());
    let bytes = read_bounded(file).map_err(told)?;
    let text = core::str::from_utf8(&bytes).map_err(|_| told("is no text".to_owned()))?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let fields: Result<Vec<_>, _> = lines
        .map(|(index, line)| {
            let (name, value) = line.split_once(':').unwrap_or_default();
            read_field(index + 1, name.trim(), value.trim())
        })
        .collect();
    let fields = fields.map_err(told)?;
    if fields.len() > FIELDS_MAX {
        let count = fields.len();
        return Err(told(format!(
            "has {count} fields, expected at most {FIELDS_MAX}"
        )));
    }
    Ok(fields)
}

/// The header at position `number`, from 1.
pub(super) fn read_field(
    number: usize,
    name: &str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || {
        format!(
            "field {number} cannot be sent, expected a name and a value such as \"x-api-key: 1234\""
        )
    };
    let name = HeaderName::try_from(name).map_err(|_| wrong())?;
    if OWN.contains(&name) || name.as_str().starts_with("grpc-") {
        return Err(format!(
            "field {number} is {name}, which each request has anyway"
        ));
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let name = format!("slackwater-headers-{}", std::process::id());
        let file = std::env::temp_dir().join(format!("{name}-{:p}", text.as_ptr()));
        std::fs::write(&file, text).expect("a file for the test");
        let read = CollectorHeaders::File(file.clone()).read();
        std::fs::remove_file(file).expect("the test's own file");
        read
    }

    #[test]
    fn a_line_is_a_header_and_its_value_is_not_shown() {
        let fields =
            read("# for the collector\n\nX-Key: s3cret: 1\r\nauthorization:Bearer s3cret\n")
                .expect("valid");
        let said: Vec<_> = (fields.iter())
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        assert_eq!(
            said,
            [
                ("x-key", &b"s3cret: 1"[..]),
                ("authorization", b"Bearer s3cret")
            ]
        );
        assert!(!format!("{fields:?}").contains("s3cret"));
    }

    #[test]
    fn mistakes_are_reported_without_values() {
        for (wrong, told) in [
            ("a: 1\nb s3cret", "field 2 cannot be sent"),
            ("a b: s3cret", "field 1 cannot be sent"),
            ("a: s3cret\u{7f}", "field 1 cannot be sent"),
            ("Content-Type: s3cret", "field 1 is content-type"),
            ("grpc-timeout: s3cret", "field 1 is grpc-timeout"),
        ] {
            let why = read(wrong).expect_err("wrong");
            assert!(why.contains(told) && !why.contains("s3cret"), "{why}");
        }
        let many = "a: 1\n".repeat(65);
        assert!(read(&many).expect_err("too many").contains("65 fields"));
        assert_eq!(read(&many[5..]).expect("64").len(), 64);
    }

    #[test]
    fn a_missing_file_is_reported() {
        let none = CollectorHeaders::File("/nowhere/headers".into());
        let why = none.read().expect_err("no file");
        assert!(why.starts_with("/nowhere/headers: "), "{why}");
        assert_eq!(CollectorHeaders::None.read(), Ok(Vec::new()));
    }
}
