//! Data of a stream that has arrived and has not been read. Its size is bounded by the stream's
//! window, however it is split.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Waiting pieces up to this size are joined.
const JOINED_BYTES_MAX: usize = 512;

/// A waiting frame must have at least this many octets on average, once [`FRAMES_BYTES_FREE`] are
/// used up. A peer that sends less is malicious.
const FRAME_BYTES_WORTH: usize = 4;
const FRAMES_BYTES_FREE: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The first piece; empty if there is none.
    front: Bytes,
    pieces: VecDeque<Bytes>,
    /// Small pieces after all others, and the number of frames that they came in.
    tail: BytesMut,
    tail_frames: usize,
    length: usize,
}

impl Inbox {
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a piece that is not empty. `share` returns it without a copy, where that is useful.
    pub(super) fn push(&mut self, octets: &[u8], share: impl FnOnce() -> Bytes) {
        if self.is_empty() {
            self.front = share();
        } else if octets.len() <= JOINED_BYTES_MAX {
            self.tail.extend_from_slice(octets);
            self.tail_frames += 1;
        } else {
            if !self.tail.is_empty() {
                let tail = self.take_tail();
                self.pieces.push_back(tail);
            }
            self.pieces.push_back(share());
        }
        self.length += octets.len();
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        if self.length == 0 {
            return None;
        }
        let piece = if !self.front.is_empty() {
            core::mem::take(&mut self.front)
        } else if let Some(piece) = self.pieces.pop_front() {
            piece
        } else {
            self.take_tail()
        };
        self.length -= piece.len();
        Some(piece)
    }

    fn take_tail(&mut self) -> Bytes {
        self.tail_frames = 0;
        core::mem::take(&mut self.tail).freeze()
    }

    /// Whether little data waits in too many frames, which can only be an attack.
    pub(super) fn is_flooded(&self) -> bool {
        self.tail_frames * FRAME_BYTES_WORTH > self.tail.len() + FRAMES_BYTES_FREE
    }

    /// Drops all data, and returns how much it was.
    pub(super) fn clear(&mut self) -> usize {
        core::mem::take(self).length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(inbox: &mut Inbox, octets: &'static [u8]) {
        inbox.push(octets, || Bytes::from_static(octets));
    }

    #[test]
    fn pieces_keep_their_order_and_small_ones_are_joined() {
        static LARGE: [u8; JOINED_BYTES_MAX + 1] = [b'l'; JOINED_BYTES_MAX + 1];
        let mut inbox = Inbox::default();
        assert!(inbox.is_empty());
        for piece in [b"a", b"b", b"c"] {
            push(&mut inbox, piece);
        }
        push(&mut inbox, &LARGE);
        push(&mut inbox, b"d");
        assert_eq!(inbox.pop().as_deref(), Some(&b"a"[..]));
        assert_eq!(inbox.pop().as_deref(), Some(&b"bc"[..]));
        push(&mut inbox, b"e");
        assert_eq!(inbox.pop().as_deref(), Some(&LARGE[..]));
        assert_eq!(inbox.pop().as_deref(), Some(&b"de"[..]));
        assert_eq!(inbox.pop(), None);
        push(&mut inbox, b"f");
        assert_eq!(inbox.clear(), 1);
        assert!(inbox.is_empty());
    }

    #[test]
    fn only_tiny_frames_are_a_flood() {
        let mut inbox = Inbox::default();
        let frames = FRAMES_BYTES_FREE / (FRAME_BYTES_WORTH - 1);
        // The first one is not joined.
        for _ in 0..=frames {
            push(&mut inbox, b"a");
        }
        assert!(!inbox.is_flooded());
        push(&mut inbox, b"a");
        assert!(inbox.is_flooded());
        let mut inbox = Inbox::default();
        for _ in 0..10 * frames {
            push(&mut inbox, b"abcd");
        }
        assert!(!inbox.is_flooded());
    }
}
