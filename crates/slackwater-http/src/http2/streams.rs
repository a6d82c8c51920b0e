//! All streams of a connection, by number and by key.

use super::stream::Stream;
use core::cell::Cell;
use core::ops::{Index, IndexMut};
use slab::Slab;
use std::collections::VecDeque;

/// The number of our latest resets that are remembered: frames that are still under way on these
/// streams are not an error.
const RESET_MAX: usize = 256;

/// The handle by which an owner refers to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(usize);

#[derive(Debug, Default)]
pub(super) struct Streams {
    slab: Slab<Stream>,
    /// The size of all requests' heads that the peer sent.
    head_bytes: usize,
    /// Streams that are not closed, by number.
    open: VecDeque<(u32, Key)>,
    /// The stream that was found last: frames of a stream often follow each other.
    found: Cell<Option<(u32, Key)>>,
    /// The latest streams that we have reset.
    reset: VecDeque<u32>,
    /// The highest number among the earlier ones.
    forgotten: u32,
}

impl Index<Key> for Streams {
    type Output = Stream;

    fn index(&self, key: Key) -> &Stream {
        &self.slab[key.0]
    }
}

impl IndexMut<Key> for Streams {
    fn index_mut(&mut self, key: Key) -> &mut Stream {
        &mut self.slab[key.0]
    }
}

impl Streams {
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Stream> {
        self.slab.get_mut(key.0)
    }

    /// Whether no stream is open or held by an owner.
    pub(super) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// The number of streams that are not closed.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// The size of the heads of requests that are open, or held by an owner.
    pub(super) const fn head_bytes(&self) -> usize {
        self.head_bytes
    }

    pub(super) fn insert(&mut self, stream: Stream) -> Key {
        self.head_bytes += stream.head_bytes;
        Key(self.slab.insert(stream))
    }

    /// Assigns a number, higher than all before it, to the stream.
    pub(super) fn begin(&mut self, id: u32, key: Key) {
        self.open.push_back((id, key));
    }

    /// Removes a number: it is no longer known.
    pub(super) fn close(&mut self, id: u32) {
        self.found.set(None);
        if let Ok(at) = self.position(id) {
            self.open.remove(at);
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Stream> {
        let stream = self.slab.try_remove(key.0)?;
        self.head_bytes -= stream.head_bytes;
        Some(stream)
    }

    pub(super) fn find(&self, id: u32) -> Option<Key> {
        if let Some((found, key)) = self.found.get()
            && found == id
        {
            return Some(key);
        }
        // New numbers are higher than all others.
        if self.open.back().is_none_or(|&(last, _)| last < id) {
            return None;
        }
        let found = self.open[self.position(id).ok()?];
        self.found.set(Some(found));
        Some(found.1)
    }

    fn position(&self, id: u32) -> Result<usize, usize> {
        self.open.binary_search_by_key(&id, |&(id, _)| id)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Stream)> {
        self.slab
            .iter_mut()
            .map(|(index, stream)| (Key(index), stream))
    }

    /// Records that we reset this stream.
    pub(super) fn note_reset(&mut self, id: u32) {
        if self.reset.len() == RESET_MAX
            && let Some(first) = self.reset.pop_front()
        {
            self.forgotten = self.forgotten.max(first);
        }
        self.reset.push_back(id);
    }

    /// Whether a closed stream may have been reset by us.
    pub(super) fn may_be_reset(&self, id: u32) -> bool {
        id <= self.forgotten || self.reset.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_ids_are_known_until_closed() {
        let mut streams = Streams::default();
        let mut keys = Vec::new();
        for id in [1, 3, 7, 9] {
            let key = streams.insert(Stream::new(id, 0, 0));
            streams.begin(id, key);
            keys.push(key);
        }
        assert_eq!(streams.find(5), None);
        assert_eq!(streams.find(3), Some(keys[1]));
        assert_eq!(streams.find(9), Some(keys[3]));
        streams.close(3);
        streams.close(5);
        assert_eq!((streams.find(3), streams.open()), (None, 3));
        assert_eq!(streams.find(1), Some(keys[0]));
        assert_eq!(streams.remove(keys[1]).map(|stream| stream.id), Some(3));
        assert!(!streams.is_empty());
    }

    #[test]
    fn forgotten_resets_match_any_older_stream() {
        let mut streams = Streams::default();
        streams.note_reset(3);
        assert!(streams.may_be_reset(3) && !streams.may_be_reset(1));
        for id in 0..RESET_MAX {
            streams.note_reset(5 + 2 * u32::try_from(id).unwrap_or(0));
        }
        assert!(streams.may_be_reset(1) && streams.may_be_reset(3) && streams.may_be_reset(5));
        assert!(!streams.may_be_reset(4));
    }
}
