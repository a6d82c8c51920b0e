//! The output: frames in order, with large pieces of bodies by reference.
//!
//! Small pieces are copied after the head of their frame. All output is written at once.

use super::frame::FrameHead;
use super::stock::Stock;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Up to this size a copy is cheaper than a separate part of the write.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// The output: the segments, followed by the text.
#[derive(Debug, Default)]
pub struct Out {
    segments: VecDeque<Bytes>,
    segments_length: usize,
    text: BytesMut,
    stock: Stock,
}

impl Out {
    pub(super) fn new(stock: Stock) -> Self {
        Self {
            stock,
            ..Self::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.segments.is_empty()
    }

    /// The number of octets.
    pub(super) fn len(&self) -> usize {
        self.segments_length + self.text.len()
    }

    /// The buffer for frames without large pieces.
    pub(super) fn text(&mut self) -> &mut BytesMut {
        if self.text.capacity() == 0 {
            self.text = (self.stock.lend_text)();
        }
        &mut self.text
    }

    /// Appends a frame with a piece of a body.
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

    /// Returns the first parts, as many as fit into `slices`.
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

    /// Returns all output, if it is in one part.
    pub fn one_part(&self) -> Option<&[u8]> {
        self.segments.is_empty().then_some(&self.text[..])
    }

    /// Removes octets that were written. An empty output holds no memory.
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
            self.return_text();
        }
    }

    fn return_text(&mut self) {
        if self.text.capacity() > 0 {
            (self.stock.take_text_back)(core::mem::take(&mut self.text));
        }
    }

    /// Drops all output.
    pub(super) fn clear(&mut self) {
        self.segments = VecDeque::new();
        self.segments_length = 0;
        self.return_text();
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
    fn parts_keep_their_order_under_partial_writes() {
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
    fn small_output_is_one_part() {
        let mut out = Out::default();
        out.push(head(1), Bytes::from_static(b"a"));
        out.push(head(1), Bytes::from_static(b"b"));
        assert_eq!(out.one_part().map(<[u8]>::len), Some(2 * 10));
    }
}
