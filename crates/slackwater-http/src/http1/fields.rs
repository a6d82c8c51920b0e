//! The fields of a head that the codec itself needs.
//!
//! The fields that decide a message's length are read in the strictest way that RFC 9112 §6 allows.
//! A repeated `Content-Length` is refused even if both values are equal: where one recipient joins
//! them, another takes the first.

use super::{BadKind, BadMessage};
use crate::content_length;
use crate::fields::{BadLine, Fields};

/// The result of the fields that concern the message itself.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each thing that a field may say; they are not states"
)]
pub(super) struct Framing {
    pub(super) length: Option<u64>,
    /// `Transfer-Encoding: chunked`, once.
    pub(super) chunked: bool,
    /// A transfer coding other than chunked.
    other_coding: bool,
    pub(super) hosts: u32,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    /// `Connection` names `upgrade`.
    pub(super) upgrade: bool,
    pub(super) expects_continue: bool,
}

/// Reads the fields of a block of lines into `fields`.
pub(super) fn take(
    block: &[u8],
    fields_max: usize,
    fields: &mut Fields,
) -> Result<Framing, BadMessage> {
    let mut said = Framing::default();
    fields.read(block, fields_max, |name, value| said.note(name, value))?;
    said.check()
}

impl From<BadLine> for BadMessage {
    fn from(bad: BadLine) -> Self {
        match bad {
            BadLine::Name => Self::malformed("a field's name is not a token"),
            BadLine::Value => Self::malformed("a field's value has control characters"),
            BadLine::End => Self::LINE_END,
            BadLine::TooMany => Self {
                kind: BadKind::HeadTooLarge,
                reason: "the head has too many fields",
            },
        }
    }
}

impl Framing {
    fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadMessage> {
        match name {
            b"content-length" => {
                if self.length.is_some() {
                    return Err(BadMessage::malformed("more than one content-length"));
                }
                let length = content_length::parse(value)
                    .ok_or(BadMessage::malformed("the content-length is not a number"))?;
                self.length = Some(length);
            }
            b"transfer-encoding" => {
                self.note_coding(value)?;
            }
            b"host" => self.hosts = self.hosts.saturating_add(1),
            b"connection" => self.note_connection(value),
            b"expect" => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            _ => (),
        }
        Ok(())
    }

    fn note_coding(&mut self, value: &[u8]) -> Result<(), BadMessage> {
        let mut codings = tokens(value).peekable();
        if codings.peek().is_none() {
            return Err(BadMessage::malformed("transfer-encoding is empty"));
        }
        for coding in codings {
            // Chunked must be the last coding, and applied once, because it frames the message. RFC
            // 9112 §6.3
            if self.chunked {
                return Err(BadMessage::malformed("chunked is not the last coding"));
            }
            self.chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.other_coding |= !self.chunked;
        }
        Ok(())
    }

    /// Checks that need all fields.
    fn check(self) -> Result<Self, BadMessage> {
        if self.other_coding && !self.chunked {
            return Err(BadMessage::malformed("chunked is not the last coding"));
        }
        if self.other_coding {
            return Err(BadMessage {
                kind: BadKind::Coding,
                reason: "no transfer coding but chunked is known here",
            });
        }
        if self.chunked && self.length.is_some() {
            return Err(BadMessage::malformed(
                "content-length and transfer-encoding exclude each other",
            ));
        }
        Ok(self)
    }

    fn note_connection(&mut self, value: &[u8]) {
        for token in tokens(value) {
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
            self.upgrade |= token.eq_ignore_ascii_case(b"upgrade");
        }
    }
}

/// The members of a comma-separated list that are not empty.
pub(super) fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{self, HeaderName};

    fn heard(name: &HeaderName, values: &[&str]) -> Result<Framing, BadMessage> {
        let mut said = Framing::default();
        for value in values {
            said.note(name.as_str().as_bytes(), value.as_bytes())?;
        }
        said.check()
    }

    #[test]
    fn content_length_must_be_one_number() {
        let length =
            |values: &[&str]| heard(&header::CONTENT_LENGTH, values).map(|said| said.length);
        assert_eq!(length(&["0"]), Ok(Some(0)));
        assert_eq!(length(&["007"]), Ok(Some(7)));
        assert_eq!(length(&["18446744073709551615"]), Ok(Some(u64::MAX)));
        for bad in [
            &[""][..],
            &["+1"],
            &["-1"],
            &["1 "],
            &[" 1"],
            &["0x1"],
            &["1,1"],
            &["5, 5"],
            &["5", "5"],
            &["5", "6"],
            &["18446744073709551616"],
            &["٣"],
        ] {
            assert!(length(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_a_single_chunked_coding_is_accepted() {
        let coding = |values: &[&str]| {
            heard(&header::TRANSFER_ENCODING, values)
                .map(|said| said.chunked)
                .map_err(|bad| bad.kind)
        };
        assert_eq!(coding(&["chunked"]), Ok(true));
        assert_eq!(coding(&["Chunked ,"]), Ok(true));
        for bad in [
            &["chunked, chunked"][..],
            &["chunked", "chunked"],
            &["chunked", "identity"],
            &["chunked, gzip"],
            &["gzip"],
            &["xchunked"],
            &["chunked;a=b"],
            &["\"chunked\""],
            &[""],
            &[","],
        ] {
            assert_eq!(coding(bad), Err(BadKind::Malformed), "{bad:?}");
        }
        for unknown in [&["gzip, chunked"][..], &["gzip", "chunked"]] {
            assert_eq!(coding(unknown), Err(BadKind::Coding), "{unknown:?}");
        }
    }

    #[test]
    fn connection_field_is_parsed_as_a_list() {
        let said =
            heard(&header::CONNECTION, &["TE, Keep-Alive", "upgrade,, close"]).expect("fine");
        assert!(said.keep_alive && said.upgrade && said.close);
        let said = heard(&header::CONNECTION, &["closed"]).expect("fine");
        assert!(!said.keep_alive && !said.upgrade && !said.close);
    }
}
