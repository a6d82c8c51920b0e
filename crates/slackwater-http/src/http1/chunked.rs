//! The chunked coding. RFC 9112 §7.1
//!
//! A chunk size is at most sixteen hexadecimal digits, followed by a semicolon or CR LF: no sign,
//! no prefix, no space. Extensions are skipped, within bounds. Trailers are parsed like a head
//! without a start line.

use super::{BadMessage, Decoded, HeadLimits};
use crate::fields::{BadLine, Fields};
use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

const SIZE_DIGITS_MAX: u32 = 16;

/// The most octets of extensions in a whole body. No client is known to need any.
const EXTENSIONS_MAX: usize = 4 << 10;

/// Decodes chunks, wherever the octets are split.
#[derive(Debug)]
pub struct Chunked {
    state: State,
    limits: HeadLimits,
    extensions: usize,
    trailers: BytesMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size {
        size: u64,
        digits: u32,
    },
    Extension {
        size: u64,
    },
    /// After the CR of a size line.
    SizeLineFeed {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// Before the CR that ends a chunk's data.
    DataReturn,
    DataLineFeed,
    Trailers,
    Done,
}

const SIZE: State = State::Size { size: 0, digits: 0 };

impl Chunked {
    /// `limits` apply to the trailers.
    pub(super) fn new(limits: HeadLimits) -> Self {
        Self {
            state: SIZE,
            limits,
            extensions: 0,
            trailers: BytesMut::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes the next piece out of `unread`.
    pub(super) fn decode(&mut self, unread: &mut Bytes) -> Result<Decoded, BadMessage> {
        let decoded = self.decode_next(unread);
        if unread.is_empty() {
            // Octets that were read one by one leave an empty rest, which still holds its buffer.
            *unread = Bytes::new();
        }
        decoded
    }

    fn decode_next(&mut self, unread: &mut Bytes) -> Result<Decoded, BadMessage> {
        loop {
            match self.state {
                State::Done => return Ok(Decoded::End),
                _ if unread.is_empty() => return Ok(Decoded::Starved),
                State::Data { left } => {
                    let length =
                        usize::try_from(left).map_or(unread.len(), |left| left.min(unread.len()));
                    let left = left - length as u64;
                    self.state = if left == 0 {
                        State::DataReturn
                    } else {
                        State::Data { left }
                    };
                    return Ok(Decoded::Data(unread.split_to(length)));
                }
                State::Trailers => {
                    let Some(trailers) = self.take_trailers(unread)? else {
                        return Ok(Decoded::Starved);
                    };
                    self.state = State::Done;
                    if !trailers.is_empty() {
                        return Ok(Decoded::Trailers(trailers));
                    }
                }
                _ => self.state = self.step(unread.get_u8())?,
            }
        }
    }

    /// Handles one octet between the data of two chunks.
    fn step(&mut self, byte: u8) -> Result<State, BadMessage> {
        Ok(match (self.state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == SIZE_DIGITS_MAX {
                    return Err(BadMessage::malformed("a chunk's size is too large"));
                }
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                State::Size {
                    size: size << 4 | u64::from(digit),
                    digits: digits + 1,
                }
            }
            (State::Size { digits: 0, .. }, _) => {
                return Err(BadMessage::malformed("a chunk's size is not a number"));
            }
            (State::Size { size, .. } | State::Extension { size }, b'\r') => {
                State::SizeLineFeed { size }
            }
            (State::Size { size, .. }, b';') => State::Extension { size },
            (State::Size { .. }, _) => {
                return Err(BadMessage::malformed("a chunk's size is not a number"));
            }
            (State::Extension { .. }, _) if byte.is_ascii_control() && byte != b'\t' => {
                return Err(BadMessage::malformed(
                    "a chunk's extension has control characters",
                ));
            }
            (State::Extension { .. }, _) => {
                self.extensions += 1;
                if self.extensions > EXTENSIONS_MAX {
                    return Err(BadMessage::malformed("chunk extensions are too long"));
                }
                self.state
            }
            (State::SizeLineFeed { size: 0 }, b'\n') => State::Trailers,
            (State::SizeLineFeed { size }, b'\n') => State::Data { left: size },
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => SIZE,
            _ => return Err(BadMessage::malformed("a chunk does not end with CR LF")),
        })
    }

    /// Returns the trailers once their empty line has arrived. They are buffered, because they are
    /// rare and may be split anywhere.
    fn take_trailers(&mut self, unread: &mut Bytes) -> Result<Option<HeaderMap>, BadMessage> {
        let before = self.trailers.len();
        // One octet more than allowed is enough to detect the excess.
        let room = (self.limits.bytes_max + 1).saturating_sub(before);
        let looked_at = &unread[..room.min(unread.len())];
        self.trailers.extend_from_slice(looked_at);
        let end = if self.trailers.starts_with(b"\r\n") {
            Some(2)
        } else {
            super::end_of_head(&self.trailers, before)
        };
        let Some(end) = end else {
            let so_far = looked_at.len();
            unread.advance(so_far);
            if self.trailers.len() > self.limits.bytes_max {
                return Err(BadMessage::malformed("the trailers are too long"));
            }
            if !super::is_head_so_far(super::new_part(&self.trailers, before)) {
                return Err(BadMessage::malformed("the trailers are not fields"));
            }
            return Ok(None);
        };
        unread.advance(end - before);
        self.trailers.truncate(end);
        let trailers = core::mem::take(&mut self.trailers);
        parse_trailers(&trailers, self.limits).map(Some)
    }
}

fn parse_trailers(lines: &[u8], limits: HeadLimits) -> Result<HeaderMap, BadMessage> {
    let mut trailers = Fields::new();
    trailers.read(lines, limits.fields_max, |_, _| Ok::<_, BadMessage>(()))?;
    // The head has already decided the framing of the message.
    trailers.retain(|name, _| !is_of_the_head(name));
    let too_many = || BadMessage::from(BadLine::TooMany);
    trailers.to_map().ok_or_else(too_many)
}

/// Whether a field frames, routes or authenticates a message, and so comes too late in a trailer.
/// Such fields are left out, so that they cannot mislead a recipient that merges trailers into the
/// head. RFC 9110 §6.5.1
pub fn is_of_the_head(name: &[u8]) -> bool {
    [
        "content-length",
        "transfer-encoding",
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "upgrade",
        "te",
        "trailer",
        "via",
        "max-forwards",
        "expect",
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "content-encoding",
        "content-type",
        "content-range",
        "cache-control",
    ]
    .iter()
    .any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: HeadLimits = HeadLimits {
        bytes_max: 64,
        fields_max: 3,
    };

    /// Body, trailers and the remaining octets; `None` if more is needed.
    type Whole = Option<(Vec<u8>, HeaderMap, Vec<u8>)>;

    /// Decodes the pieces in turn.
    fn decode(pieces: &[&[u8]]) -> Result<Whole, BadMessage> {
        let mut chunked = Chunked::new(LIMITS);
        let (mut body, mut trailers, mut rest) = (Vec::new(), HeaderMap::new(), Vec::new());
        for piece in pieces {
            let mut unread = Bytes::copy_from_slice(piece);
            loop {
                match chunked.decode(&mut unread)? {
                    Decoded::Data(data) => body.extend_from_slice(&data),
                    Decoded::Trailers(fields) => trailers = fields,
                    Decoded::Starved | Decoded::End => break,
                }
            }
            rest.extend_from_slice(&unread);
        }
        Ok(chunked.is_done().then_some((body, trailers, rest)))
    }

    #[test]
    fn chunks_are_joined_and_following_bytes_are_left() {
        let wire = b"5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\n\r\nGET";
        let (body, trailers, rest) = decode(&[wire]).expect("valid").expect("whole");
        assert_eq!(body, b"hello0123456789");
        assert!(trailers.is_empty());
        assert_eq!(rest, b"GET");
        assert_eq!(decode(&[b"5\r\nhel"]), Ok(None));
        assert_eq!(decode(&[b"0\r\n"]), Ok(None));
    }

    #[test]
    fn trailers_are_parsed_without_framing_fields() {
        let wire = b"0\r\nx-sum: 1\r\nContent-Length: 5\r\n\r\n!";
        let (_, trailers, rest) = decode(&[wire]).expect("valid").expect("whole");
        assert_eq!(trailers.len(), 1);
        assert_eq!(trailers["x-sum"], "1");
        assert_eq!(rest, b"!");
    }

    #[test]
    fn buffer_is_released_with_its_last_octet() {
        let whole = b"2\r\nab\r\n0\r\na: b\r\n\r\n";
        for end in 1..=whole.len() {
            let buffer = Bytes::copy_from_slice(&whole[..end]);
            let mut unread = buffer.clone();
            let mut chunked = Chunked::new(LIMITS);
            while matches!(
                chunked.decode(&mut unread),
                Ok(Decoded::Data(_) | Decoded::Trailers(_))
            ) {}
            assert!(unread.is_empty() && buffer.is_unique(), "{end}");
        }
    }

    #[test]
    fn malformed_chunks_are_rejected() {
        for bad in [
            "\r\n",
            "-1\r\n",
            "+1\r\na\r\n",
            "0x1\r\na\r\n",
            "1 \r\na\r\n",
            " 1\r\na\r\n",
            "1\na\r\n",
            "1\r\na\n",
            "1\r\nab",
            "1\r\na\r0",
            "1\ra",
            "g\r\n",
            ";a\r\n",
            "00000000000000001\r\n",
            "1;a\nb\r\n",
            "1;a\0\r\n",
            "0\r\n\n",
            "0\r\nx: 1\n\n",
            "0\r\nx : 1\r\n\r\n",
            "0\r\nx: 1\r\n y\r\n\r\n",
            "0\r\na:1\r\nb:1\r\nc:1\r\nd:1\r\n\r\n",
            "0\r\nx: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n\r\n",
        ] {
            assert!(decode(&[bad.as_bytes()]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn total_size_of_chunk_extensions_is_bounded() {
        let chunk = format!("1;{}\r\na\r\n", "x".repeat(EXTENSIONS_MAX / 2));
        assert!(decode(&[chunk.repeat(2).as_bytes()]).is_ok());
        assert!(decode(&[chunk.repeat(3).as_bytes()]).is_err());
    }

    #[test]
    fn largest_chunk_size_is_accepted() {
        let mut chunked = Chunked::new(LIMITS);
        let mut unread = Bytes::from_static(b"ffffffffffffffff\r\nab");
        assert_eq!(chunked.decode(&mut unread), Ok(Decoded::Data("ab".into())));
        let left = u64::MAX - 2;
        assert_eq!(chunked.state, State::Data { left });
    }

    proptest! {
        #[test]
        fn chunked_decoding_does_not_depend_on_splits(
            wire in proptest::collection::vec(
                proptest::sample::select(&b"0123af;=x: \r\n\r\n\r\n\0"[..]), 0..80),
            cuts in proptest::collection::vec(0_usize..80, 0..6),
        ) {
            let whole = decode(&[&wire]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(wire.len())).collect();
            cuts.extend([0, wire.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &wire[cut[0]..cut[1]]).collect();
            // The first error that is found may be a different one.
            prop_assert_eq!(whole.ok(), decode(&pieces).ok());
        }

        #[test]
        fn chunked_body_round_trips(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..5),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut wire = BytesMut::new();
            for chunk in &chunks {
                super::super::encode_chunk_start(&mut wire, chunk.len());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(super::super::LAST_CHUNK);
            let cut = cut.index(wire.len());
            let (body, ..) = decode(&[&wire[..cut], &wire[cut..]]).expect("valid").expect("whole");
            prop_assert_eq!(body, chunks.concat());
        }
    }
}
