//! The encoder's copy of the peer's table, and how fields are found in it.
//!
//! A field is inserted when it is sent a second time, and the first time was not long ago. So
//! values that change each time (an identifier, a length, a time) never evict those that are the
//! same in each head, and no list of names is needed. Fields are found by a hash, in one of a few
//! places. If all of these are taken by fields of the table, a new field is sent as a literal. This
//! costs octets and nothing else, so an attacker gains nothing by hash collisions.

use super::{TABLE_BYTES, field_size, static_table};
use std::collections::VecDeque;

/// The number of places with the same part of the hash.
const WAYS: usize = 4;

/// The number of such sets: about twice as many places as a usual table has fields.
const SETS: usize = 32;

/// An odd number with as many ones as zeros.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fields larger than the table divided by this are always sent as literals: a few of them would
/// evict all others.
const PART_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Table {
    /// Newest first.
    entries: VecDeque<Entry>,
    /// The size of the entries.
    bytes: usize,
    bytes_max: usize,
    /// The number of fields inserted so far; it may wrap.
    inserted: u32,
    /// The number of places taken so far; it may wrap.
    taken: usize,
    places: [[Place; WAYS]; SETS],
    /// The field that was found last, and the one that is expected next, by number; 0 for none.
    last: u32,
    expected: u32,
    /// The field that was found first in the last block of each kind.
    first: [u32; 2],
    kind: Kind,
}

#[derive(Debug)]
struct Entry {
    /// Index of the name in the static table, or 0.
    name_index: usize,
    /// The number of the field that followed it the last time; 0 for none.
    next: u32,
    /// Its size in the table.
    size: usize,
    /// The length of the name, if it has no index.
    name_length: usize,
    /// The name, unless it has an index, followed by the value.
    octets: Box<[u8]>,
}

/// A field to encode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'f> {
    /// Index of the name in the static table, or 0.
    pub(super) name_index: usize,
    pub(super) name: &'f [u8],
    pub(super) value: &'f [u8],
}

/// A field that was sent not long ago.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: u32,
    /// Its number among all inserted fields; 0 if it was sent only once.
    number: u32,
}

/// The kind of a block. Each kind has its own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Head,
    Trailers,
}

/// How to encode a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// By this index.
    Indexed(usize),
    /// As a literal that enters the table.
    Remembered,
    /// As a literal that does not enter the table.
    Passing,
}

impl Entry {
    fn is(&self, field: Given<'_>) -> bool {
        let name = field.unknown_name();
        // Compare all three: the same octets may be split elsewhere.
        self.name_index == field.name_index
            && self.name_length == name.len()
            && (self.octets.split_at_checked(name.len()))
                .is_some_and(|(ours, rest)| ours == name && rest == field.value)
    }
}

impl<'f> Given<'f> {
    /// The name, or nothing if its index is known.
    const fn unknown_name(self) -> &'f [u8] {
        if self.name_index == 0 { self.name } else { b"" }
    }

    fn hash(self) -> u32 {
        let name = match self.name_index {
            0 => mix(self.name.len() as u64, self.name),
            index => index as u64,
        };
        (mix(name, self.value) >> 32) as u32
    }
}

impl Table {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            bytes_max,
            inserted: 0,
            taken: 0,
            places: [[Place { hash: 0, number: 0 }; WAYS]; SETS],
            last: 0,
            expected: 0,
            first: [0; 2],
            kind: Kind::Head,
        }
    }

    /// Starts a block.
    pub(super) const fn begin(&mut self, kind: Kind) {
        self.last = 0;
        self.expected = self.first[kind as usize];
        self.kind = kind;
    }

    /// Finds a field, or inserts it if that is worthwhile.
    #[inline]
    pub(super) fn find(&mut self, field: Given<'_>) -> Finding {
        // Most heads have the same fields in the same order: then no hash is needed.
        if let Some((age, entry)) = self.at(self.expected)
            && entry.is(field)
        {
            let next = entry.next;
            self.last = self.expected;
            self.expected = next;
            return Finding::Indexed(static_table::LENGTH + 1 + age);
        }
        self.search(field)
    }

    fn search(&mut self, field: Given<'_>) -> Finding {
        let hash = field.hash();
        let set = (hash >> 27) as usize % SETS;
        if let Some(way) = (self.places[set].iter()).position(|place| place.hash == hash) {
            let number = self.places[set][way].number;
            return match self.at(number) {
                Some((age, entry)) if entry.is(field) => {
                    let next = entry.next;
                    self.follow(number, next);
                    Finding::Indexed(static_table::LENGTH + 1 + age)
                }
                // Another field with the same hash.
                Some(_) => Finding::Passing,
                None => self.remember(set, way, field),
            };
        }
        self.taken = self.taken.wrapping_add(1);
        let free = (0..WAYS)
            .map(|way| (self.taken + way) % WAYS)
            .find(|way| self.at(self.places[set][*way].number).is_none());
        if let Some(way) = free {
            self.places[set][way] = Place { hash, number: 0 };
        }
        Finding::Passing
    }

    /// Records that this field followed the last one. `next` is the field that followed it the last
    /// time.
    fn follow(&mut self, number: u32, next: u32) {
        let age = self.inserted.wrapping_sub(self.last) as usize;
        if self.last == 0 {
            self.first[self.kind as usize] = number;
        } else if let Some(last) = self.entries.get_mut(age) {
            last.next = number;
        }
        self.last = number;
        self.expected = next;
    }

    /// Returns a field by its number if it is still in the table, with the number of later
    /// insertions.
    #[inline]
    fn at(&self, number: u32) -> Option<(usize, &Entry)> {
        // For number 0 this fails: at least as many fields were inserted as there are.
        let age = self.inserted.wrapping_sub(number) as usize;
        Some((age, self.entries.get(age)?))
    }

    fn remember(&mut self, set: usize, way: usize, field: Given<'_>) -> Finding {
        let size = field_size(field.name.len(), field.value.len());
        if size > self.bytes_max / PART_MAX {
            return Finding::Passing;
        }
        self.shrink(self.bytes_max - size);
        self.entries.push_front(Entry {
            name_index: field.name_index,
            next: 0,
            size,
            name_length: field.unknown_name().len(),
            octets: [field.unknown_name(), field.value]
                .concat()
                .into_boxed_slice(),
        });
        self.bytes += size;
        self.inserted = self.inserted.wrapping_add(1);
        self.places[set][way].number = self.inserted;
        self.follow(self.inserted, 0);
        Finding::Remembered
    }

    /// Changes the size of the table. The peer does the same when it receives the change.
    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.min(TABLE_BYTES);
        self.shrink(self.bytes_max);
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.size;
        }
    }
}

/// Hashes eight octets at a time. If the length is not a multiple of eight, the last eight octets
/// overlap. The upper bits are the better ones.
fn mix(state: u64, octets: &[u8]) -> u64 {
    let mut state = state.wrapping_add(octets.len() as u64);
    let mut word = |word: u64| state = (state.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    if let Some(last) = octets.last_chunk::<8>() {
        let (words, _) = octets.as_chunks::<8>();
        for eight in words {
            word(u64::from_le_bytes(*eight));
        }
        word(u64::from_le_bytes(*last));
    } else if let (Some(first), Some(last)) = (octets.first_chunk::<4>(), octets.last_chunk::<4>())
    {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        word(u64::from(first) << 32 | u64::from(last));
    } else {
        let sum = (octets.iter()).fold(0, |sum, octet| sum << 8 | u64::from(*octet));
        word(sum);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn given(value: &[u8]) -> Given<'_> {
        Given {
            name_index: 0,
            name: b"x-a",
            value,
        }
    }

    /// Returns two values with the same hash; among a million, some must collide.
    fn alike() -> [Vec<u8>; 2] {
        let mut values = HashMap::new();
        for number in 0..1_000_000_u64 {
            let value = number.wrapping_mul(FACTOR).to_be_bytes();
            if let Some(other) = values.insert(given(&value).hash(), value) {
                return [other.to_vec(), value.to_vec()];
            }
        }
        panic!("a hash that never fails");
    }

    #[test]
    fn hash_collisions_do_not_mix_fields() {
        let [one, other] = alike();
        let mut table = Table::new(TABLE_BYTES);
        table.begin(Kind::Head);
        assert_eq!(table.find(given(&one)), Finding::Passing);
        // Its hash is taken for the first field's, sent again; the field that is inserted is the
        // second.
        assert_eq!(table.find(given(&other)), Finding::Remembered);
        for _ in 0..2 {
            table.begin(Kind::Trailers);
            assert_eq!(table.find(given(&one)), Finding::Passing);
            assert_eq!(table.find(given(&other)), Finding::Indexed(62));
        }
    }

    #[test]
    fn one_time_fields_do_not_evict_indexed_fields() {
        let mut table = Table::new(TABLE_BYTES);
        table.begin(Kind::Head);
        for finding in [Finding::Passing, Finding::Remembered] {
            assert_eq!(table.find(given(b"usual")), finding);
        }
        for number in 0..10_000_u64 {
            assert_eq!(table.find(given(&number.to_be_bytes())), Finding::Passing);
        }
        // If no field is expected, it is found by its hash.
        table.begin(Kind::Trailers);
        assert_eq!(table.find(given(b"usual")), Finding::Indexed(62));
    }
}
