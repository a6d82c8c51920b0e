//! Frames: their heads, and frames that are written whole. RFC 9113 §4.1, §6

use bytes::{BufMut, BytesMut};

/// Octets of a frame's head.
pub(super) const HEAD_BYTES: usize = 9;

/// Types of frames. RFC 9113 §6
pub(super) mod kind {
    pub(in crate::http2) const DATA: u8 = 0;
    pub(in crate::http2) const HEADERS: u8 = 1;
    pub(in crate::http2) const PRIORITY: u8 = 2;
    pub(in crate::http2) const RST_STREAM: u8 = 3;
    pub(in crate::http2) const SETTINGS: u8 = 4;
    pub(in crate::http2) const PUSH_PROMISE: u8 = 5;
    pub(in crate::http2) const PING: u8 = 6;
    pub(in crate::http2) const GOAWAY: u8 = 7;
    pub(in crate::http2) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::http2) const CONTINUATION: u8 = 9;
}

/// Flags of frames. RFC 9113 §6
pub(super) mod flag {
    pub(in crate::http2) const ACK: u8 = 0x1;
    pub(in crate::http2) const END_STREAM: u8 = 0x1;
    pub(in crate::http2) const END_HEADERS: u8 = 0x4;
    pub(in crate::http2) const PADDED: u8 = 0x8;
    pub(in crate::http2) const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// The number of octets that follow; it is written with 24 bits.
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// 0: the connection.
    pub(super) stream: u32,
}

impl FrameHead {
    /// Reads a head; `None` if it is not complete.
    pub(super) fn read(octets: &[u8]) -> Option<Self> {
        let &[l0, l1, l2, kind, flags, s0, s1, s2, s3] = octets.first_chunk::<HEAD_BYTES>()?;
        Some(Self {
            length: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            kind,
            flags,
            // The first bit is reserved.
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        })
    }

    pub(super) fn octets(self) -> [u8; HEAD_BYTES] {
        // A frame longer than 24 bits allow is never written: no peer can permit it.
        let length = u32::try_from(self.length).unwrap_or(u32::MAX);
        let [_, l0, l1, l2] = length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub(super) fn write(self, out: &mut BytesMut) {
        out.put_slice(&self.octets());
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Returns the first four octets of a payload as a number.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload
        .first_chunk::<4>()
        .map(|octets| u32::from_be_bytes(*octets))
}

/// Writes a frame whose payload is one number.
pub(super) fn write_number(out: &mut BytesMut, kind: u8, stream: u32, number: u32) {
    let head = FrameHead {
        length: 4,
        kind,
        flags: 0,
        stream,
    };
    head.write(out);
    out.put_u32(number);
}

pub(super) fn write_ping(out: &mut BytesMut, flags: u8, opaque: [u8; 8]) {
    let head = FrameHead {
        length: 8,
        kind: kind::PING,
        flags,
        stream: 0,
    };
    head.write(out);
    out.put_slice(&opaque);
}

pub(super) fn write_goaway(out: &mut BytesMut, last: u32, reason: u32) {
    let head = FrameHead {
        length: 8,
        kind: kind::GOAWAY,
        flags: 0,
        stream: 0,
    };
    head.write(out);
    out.put_u32(last);
    out.put_u32(reason);
}

/// Returns a payload without its padding; `None` if the padding is longer than the payload. RFC
/// 9113 §6.1
pub(super) fn without_padding(head: FrameHead, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(flag::PADDED) {
        return Some(payload);
    }
    let (&padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(padding))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_head_round_trips() {
        let head = FrameHead {
            length: 0x01_02_03,
            kind: kind::PING,
            flags: flag::ACK,
            stream: 0x7fff_fffe,
        };
        let mut out = BytesMut::new();
        head.write(&mut out);
        assert_eq!(&out[..], [1, 2, 3, 6, 1, 0x7f, 0xff, 0xff, 0xfe]);
        assert_eq!(FrameHead::read(&out), Some(head));
        assert_eq!(FrameHead::read(&out[..8]), None);
        // The reserved bit. RFC 9113 §4.1
        out[5] |= 0x80;
        assert_eq!(FrameHead::read(&out), Some(head));
    }

    #[test]
    fn padding_must_fit_the_payload() {
        let head = |flags| FrameHead {
            length: 0,
            kind: kind::DATA,
            flags,
            stream: 1,
        };
        let padded = |payload| without_padding(head(flag::PADDED), payload);
        assert_eq!(padded(&[2, b'a', 0, 0]), Some(&b"a"[..]));
        assert_eq!(padded(&[3, 0, 0, 0]), Some(&b""[..]));
        assert_eq!(padded(&[4, 0, 0, 0]), None);
        assert_eq!(padded(&[]), None);
        assert_eq!(without_padding(head(0), &[9]), Some(&[9][..]));
    }
}
