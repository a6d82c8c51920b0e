//! What is to be written: frames in their order, the large pieces of bodies from where they are.
//!
//! Small pieces are copied behind the head of their frame; what gathers leaves in one write.

use super::frame::FrameHead;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Up to this a copy is cheaper than a part of its own in the write.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// Room for what usually gathers.
const TEXT_BYTES: usize = 4 << 10;

/// What is to be written: the segments, and the text behind them.
#[derive(Debug, Default)]
pub struct Out {
    segments: VecDeque<Bytes>,
    segments_length: usize,
    text: BytesMut,
}

impl Out {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.segments.is_empty()
    }

    /// Octets.
    pub(super) fn len(&self) -> usize {
        self.segments_length + self.text.len()
    }

    /// Where frames are put that are text throughout.
    pub(super) fn text(&mut self) -> &mut BytesMut {
        if self.text.capacity() == 0 {
            self.text.reserve(TEXT_BYTES);
        }
        &mut self.text
    }

    /// A frame with a piece of a body.
    pub(super) fn push(&mut self, head: FrameHead, data: Bytes) {
        let text = self.text();
        head.write(text);
        if data.len() <= COPIED_BYTES_MAX {
            text.extend_from_slice(&data);
            return;
        }
        let text = text.split().freeze();
        self.segments_length += text.len() + data.len();
        self.segments.push_back(text);
        self.segments.push_back(data);
    }

    /// The first parts, as many as there is place for.
    pub fn slices<'s>(&'s self, slices: &mut [IoSlice<'s>]) -> usize {
        let text = (!self.text.is_empty()).then_some(&self.text[..]);
        let parts = self.segments.iter().map(|part| &part[..]).chain(text);
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        count
    }

    /// All of it, if it is in one part.
    pub fn one_part(&self) -> Option<&[u8]> {
        self.segments.is_empty().then_some(&self.text[..])
    }

    /// So many octets were written. What is empty holds no memory.
    pub fn advance(&mut self, mut written: usize) {
        while let Some(first) = self.segments.front_mut() {
            let part = written.min(first.len());
            self.segments_length -= part;
            written -= part;
            if part < first.len() {
                first.advance(part);
                return;
            }
            self.segments.pop_front();
        }
        if written < self.text.len() {
            self.text.advance(written);
        } else {
            self.text = BytesMut::new();
        }
    }

    /// Nothing of it will be written.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::kind;
    use super::*;

    fn whole(out: &Out) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = out.slices(&mut slices);
        slices[..count]
            .iter()
            .flat_map(|part| part.to_vec())
            .collect()
    }

    fn head(length: usize) -> FrameHead {
        FrameHead {
            length,
            kind: kind::DATA,
            flags: 0,
            stream: 1,
        }
    }

    #[test]
    fn parts_keep_their_order_however_they_are_written() {
        let large = Bytes::from(vec![b'l'; COPIED_BYTES_MAX + 1]);
        let small = Bytes::from_static(b"small");
        let mut expected = Vec::new();
        let mut out = Out::default();
        for piece in [&small, &large, &large, &small] {
            out.push(head(piece.len()), piece.clone());
            expected.extend(head(piece.len()).octets());
            expected.extend(&piece[..]);
        }
        assert_eq!(whole(&out), expected);
        assert_eq!(out.one_part(), None);
        for step in [1, 9, 100, COPIED_BYTES_MAX, 5, 3000] {
            assert_eq!(out.len(), expected.len());
            out.advance(step);
            expected.drain(..step);
            assert_eq!(whole(&out), expected, "{step}");
        }
        out.advance(expected.len());
        assert!(out.is_empty() && out.segments_length == 0 && out.text.capacity() == 0);
    }

    #[test]
    fn what_is_small_is_one_part() {
        let mut out = Out::default();
        out.push(head(1), Bytes::from_static(b"a"));
        out.push(head(1), Bytes::from_static(b"b"));
        assert_eq!(out.one_part().map(<[u8]>::len), Some(2 * 10));
    }
}
