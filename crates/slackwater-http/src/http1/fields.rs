//! Fields of a head, and those that the codec itself needs.
//!
//! Values are slices of the head's buffer, which lives as long as the last of them. The fields that
//! decide a message's length are read in the strictest way that RFC 9112 §6 allows. A repeated
//! `Content-Length` is refused even if both values are equal: where one recipient joins them,
//! another takes the first.

use super::names::{self, Names};
use super::{BadKind, BadMessage};
use crate::content_length;
use bytes::Bytes;
use core::mem::MaybeUninit;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The number of fields with space on the stack.
const FIELDS_USUAL: usize = 128;

/// Space for the fields that `httparse` finds.
#[derive(Debug)]
pub(super) struct FieldRoom<'h> {
    usual: [MaybeUninit<httparse::Header<'h>>; FIELDS_USUAL],
    /// Used only if the limit allows more.
    many: Vec<MaybeUninit<httparse::Header<'h>>>,
}

impl Default for FieldRoom<'_> {
    fn default() -> Self {
        Self {
            usual: [const { MaybeUninit::uninit() }; FIELDS_USUAL],
            many: Vec::new(),
        }
    }
}

impl<'h> FieldRoom<'h> {
    /// Returns space for `fields_max` fields.
    pub(super) fn lend(&mut self, fields_max: usize) -> &mut [MaybeUninit<httparse::Header<'h>>] {
        if let Some(usual) = self.usual.get_mut(..fields_max) {
            return usual;
        }
        self.many.resize_with(fields_max, MaybeUninit::uninit);
        &mut self.many
    }
}

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

/// Moves the fields that `httparse` found in `head` into `headers`.
pub(super) fn take(
    head: &Bytes,
    found: &[httparse::Header<'_>],
    headers: &mut HeaderMap,
) -> Result<Framing, BadMessage> {
    names::with(|names| take_named(names, head, found, headers))
}

fn take_named(
    names: &mut Names,
    head: &Bytes,
    found: &[httparse::Header<'_>],
    headers: &mut HeaderMap,
) -> Result<Framing, BadMessage> {
    let mut said = Framing::default();
    for field in found {
        let name = (names.read(field.name.as_bytes()))
            .map_err(|_| BadMessage::malformed("a field's name is not a token"))?;
        said.note(&name, field.value)?;
        let value = HeaderValue::from_maybe_shared(head.slice_ref(field.value))
            .map_err(|_| BadMessage::malformed("a field's value has control characters"))?;
        headers.append(name, value);
    }
    said.check()
}

impl Framing {
    fn note(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), BadMessage> {
        match *name {
            header::CONTENT_LENGTH => {
                if self.length.is_some() {
                    return Err(BadMessage::malformed("more than one content-length"));
                }
                let length = content_length::parse(value)
                    .ok_or(BadMessage::malformed("the content-length is not a number"))?;
                self.length = Some(length);
            }
            header::TRANSFER_ENCODING => {
                self.note_coding(value)?;
            }
            header::HOST => self.hosts = self.hosts.saturating_add(1),
            header::CONNECTION => self.note_connection(value),
            header::EXPECT => {
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

/// Maps `httparse`'s errors to ours.
pub(super) const fn reason(error: httparse::Error) -> BadMessage {
    match error {
        httparse::Error::TooManyHeaders => BadMessage {
            kind: BadKind::HeadTooLarge,
            reason: "the head has too many fields",
        },
        httparse::Error::HeaderName => BadMessage::malformed("a field's name is not a token"),
        httparse::Error::HeaderValue => {
            BadMessage::malformed("a field's value has control characters")
        }
        httparse::Error::NewLine => BadMessage::malformed("a line does not end with CR LF"),
        httparse::Error::Status => BadMessage::malformed("the status line is not valid"),
        httparse::Error::Token => BadMessage::malformed("the request line is not valid"),
        httparse::Error::Version => BadMessage::malformed("the version is not one of HTTP/1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(name: &HeaderName, values: &[&str]) -> Result<Framing, BadMessage> {
        let mut said = Framing::default();
        for value in values {
            said.note(name, value.as_bytes())?;
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
