//! Decodes blocks to fields, with the dynamic table. RFC 7541 §3, §6

use super::field::{Field, Name};
use super::integer::Unread;
use super::{Broken, TABLE_BYTES, field_size, huffman, static_table};
use std::borrow::Cow;
use std::collections::VecDeque;

/// Changes of the table's size that may begin a block: the smallest size since the last block, and
/// the final one. RFC 7541 §4.2
const RESIZES_MAX: usize = 2;

/// The largest text buffer that a connection keeps between blocks.
const ROOM_KEPT: usize = 4 << 10;

/// Decodes the blocks of one connection, in order.
#[derive(Debug)]
pub struct Decoder {
    /// Newest first.
    remembered: VecDeque<Remembered>,
    /// The size of the fields in `remembered`.
    bytes: usize,
    /// The limit of that size. The peer chooses it, up to the size that it was offered.
    bytes_max: usize,
    /// Buffer for text in Huffman code.
    room: Vec<u8>,
}

/// A field that the peer inserted into the table.
#[derive(Debug)]
struct Remembered {
    field: Field,
    name_length: usize,
    size: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a table of the size that both ends may use without negotiation.
    pub const fn new() -> Self {
        Self {
            remembered: VecDeque::new(),
            bytes: 0,
            bytes_max: TABLE_BYTES,
            room: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) const fn room(&self) -> usize {
        self.room.capacity()
    }

    /// Passes the fields of a whole block to `take`, each with its size, until one is not taken. A
    /// field of the table is borrowed.
    pub(in crate::http2) fn decode<E: From<Broken>>(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(Cow<'_, Field>, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut unread = Unread(block);
        let mut resizes_left = RESIZES_MAX;
        while let Some(first) = unread.octet() {
            if first & 0x80 != 0 {
                let index = unread.integer(first, 7)?;
                let (field, _, size) = self.at(index)?;
                take(Cow::Borrowed(field), size)?;
            } else if first & 0xc0 == 0x40 {
                let told = self.literal(&mut unread, first, 6, false)?;
                take(Cow::Borrowed(&told.field), told.size)?;
                self.remember(told);
            } else if first & 0xe0 == 0x20 {
                resizes_left = (resizes_left.checked_sub(1)).ok_or(Broken(
                    "a table changes its size within a block, or too often",
                ))?;
                self.resize(unread.integer(first, 5)?)?;
                continue;
            } else {
                let told = self.literal(&mut unread, first, 4, first & 0x10 != 0)?;
                take(Cow::Owned(told.field), told.size)?;
            }
            resizes_left = 0;
        }
        if self.room.len() > ROOM_KEPT {
            self.room = Vec::new();
        }
        Ok(())
    }

    /// Returns a field by its index, with the length of its name and its size.
    fn at(&self, index: u32) -> Result<(&Field, usize, usize), Broken> {
        let index = index as usize;
        if let Some(known) = static_table::known_at(index) {
            return Ok((&known.field, known.name_length, known.size));
        }
        let told = (index.checked_sub(static_table::LENGTH + 1))
            .and_then(|place| self.remembered.get(place))
            .ok_or(Broken("an index that no field has"))?;
        Ok((&told.field, told.name_length, told.size))
    }

    fn literal(
        &mut self,
        unread: &mut Unread<'_>,
        first: u8,
        bits: u32,
        is_secret: bool,
    ) -> Result<Remembered, Broken> {
        let (name, name_length) = match unread.integer(first, bits)? {
            0 => {
                let text = string(unread, &mut self.room)?;
                (Name::parse(text), text.len())
            }
            index => {
                let (field, name_length, _) = self.at(index)?;
                (Name::of(field), name_length)
            }
        };
        let value = string(unread, &mut self.room)?;
        Ok(Remembered {
            field: name.with_value(value, is_secret),
            name_length,
            size: field_size(name_length, value.len()),
        })
    }

    fn remember(&mut self, told: Remembered) {
        self.shrink(self.bytes_max.saturating_sub(told.size));
        // A field that is larger than the table only empties it. RFC 7541 §4.4
        if told.size <= self.bytes_max {
            self.bytes += told.size;
            self.remembered.push_front(told);
        }
    }

    fn resize(&mut self, bytes: u32) -> Result<(), Broken> {
        let bytes = bytes as usize;
        if bytes > TABLE_BYTES {
            return Err(Broken("a table is to be larger than was offered"));
        }
        self.bytes_max = bytes;
        self.shrink(bytes);
        Ok(())
    }

    /// Evicts the oldest fields until the rest is no larger than this.
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(oldest) = self.remembered.pop_back()
        {
            self.bytes -= oldest.size;
        }
    }
}

/// Reads a string. `room` is used if it is Huffman-coded.
fn string<'s, 'b: 's>(unread: &mut Unread<'b>, room: &'s mut Vec<u8>) -> Result<&'s [u8], Broken> {
    let first = unread
        .octet()
        .ok_or(Broken("a block ends before a string"))?;
    let length = unread.integer(first, 7)?;
    let octets = unread.octets(length)?;
    if first & 0x80 == 0 {
        return Ok(octets);
    }
    huffman::decode(octets, room)
}
