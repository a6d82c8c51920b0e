//! What the encoder has told the peer to remember, and how it is found again.
//!
//! A field goes into the table when it comes a second time and the first was not long ago. So what
//! changes each time (an identifier, a length, a time) never drives out what is the same in each
//! head, and no list of names has to say which is which. Fields are found by a hash, in one of few
//! places; where these are all taken by fields of the table, a new one is told in full. That loses
//! octets and nothing else, so nobody gains by fields whose hashes collide.

use super::{TABLE_BYTES, field_size, static_table};
use std::collections::VecDeque;

/// Places that share a part of the hash.
const WAYS: usize = 4;

/// How many times so many places there are: about twice as many as a usual table has fields.
const SETS: usize = 32;

/// Odd, and with as many ones as zeros.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fields above this part of the table are always told in full: a few of them would drive out all
/// others.
const PART_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Table {
    /// Newest first.
    entries: VecDeque<Entry>,
    /// What the entries count.
    bytes: usize,
    bytes_max: usize,
    /// Of all fields that were told so far; it may wrap.
    told: u32,
    /// Of all places that were taken so far; it may wrap.
    taken: usize,
    places: [[Place; WAYS]; SETS],
    /// The field that was found last, and the one that is expected next, as numbers; 0 for none.
    last: u32,
    expected: u32,
    /// The one that was found first in the block of the same kind before.
    first: [u32; 2],
    kind: Kind,
}

#[derive(Debug)]
struct Entry {
    /// Of the name in the static table, or 0.
    name_index: usize,
    /// The number of the field that came behind it the last time; 0 for none.
    next: u32,
    /// What it counts.
    size: usize,
    /// Octets of the name, if it has no index.
    name_length: usize,
    /// The name, unless it has an index, and the value behind it.
    octets: Box<[u8]>,
}

/// A field to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'f> {
    /// Of the name in the static table, or 0.
    pub(super) name_index: usize,
    pub(super) name: &'f [u8],
    pub(super) value: &'f [u8],
}

/// A field that came not long ago.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: u32,
    /// Which of all told fields it is; 0 if it came only once.
    number: u32,
}

/// What a block is, because each kind has its own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Head,
    Trailers,
}

/// How to write a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It has an index.
    Indexed(usize),
    /// It is to be told, and has an index from now on.
    Remembered,
    /// It is to be told for this once.
    Passing,
}

impl Entry {
    fn is(&self, field: Given<'_>) -> bool {
        let name = field.unknown_name();
        // All three: the same octets may be cut elsewhere.
        self.name_index == field.name_index
            && self.name_length == name.len()
            && (self.octets.split_at_checked(name.len()))
                .is_some_and(|(ours, rest)| ours == name && rest == field.value)
    }
}

impl<'f> Given<'f> {
    /// The name, unless its index says it.
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
            told: 0,
            taken: 0,
            places: [[Place { hash: 0, number: 0 }; WAYS]; SETS],
            last: 0,
            expected: 0,
            first: [0; 2],
            kind: Kind::Head,
        }
    }

    /// A block begins.
    pub(super) const fn begin(&mut self, kind: Kind) {
        self.last = 0;
        self.expected = self.first[kind as usize];
        self.kind = kind;
    }

    /// Finds a field, and remembers it if that is worth it.
    #[inline]
    pub(super) fn find(&mut self, field: Given<'_>) -> Finding {
        // Heads name the same fields in the same order, mostly: then no hash is needed.
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

    /// The field that came behind the last one, with the one that came behind it the last time.
    fn follow(&mut self, number: u32, next: u32) {
        let age = self.told.wrapping_sub(self.last) as usize;
        if self.last == 0 {
            self.first[self.kind as usize] = number;
        } else if let Some(last) = self.entries.get_mut(age) {
            last.next = number;
        }
        self.last = number;
        self.expected = next;
    }

    /// A field by its number, if it is still in the table, and how many were told after it.
    #[inline]
    fn at(&self, number: u32) -> Option<(usize, &Entry)> {
        // Of no field: at least as many were told as there are.
        let age = self.told.wrapping_sub(number) as usize;
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
        self.told = self.told.wrapping_add(1);
        self.places[set][way].number = self.told;
        self.follow(self.told, 0);
        Finding::Remembered
    }

    /// Both ends do this when the encoder says so.
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

/// Eight octets at a time, the last of them once more where their number does not divide. The upper
/// bits are the better ones.
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

    /// Two values with the same hash, which so many values must have.
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
    fn fields_with_the_same_hash_are_not_the_same() {
        let [one, other] = alike();
        let mut table = Table::new(TABLE_BYTES);
        table.begin(Kind::Head);
        assert_eq!(table.find(given(&one)), Finding::Passing);
        // Taken for the first one again, as far as the hash goes; what is told is the other.
        assert_eq!(table.find(given(&other)), Finding::Remembered);
        for _ in 0..2 {
            table.begin(Kind::Trailers);
            assert_eq!(table.find(given(&one)), Finding::Passing);
            assert_eq!(table.find(given(&other)), Finding::Indexed(62));
        }
    }

    #[test]
    fn what_passes_takes_no_place_from_what_is_told() {
        let mut table = Table::new(TABLE_BYTES);
        table.begin(Kind::Head);
        for finding in [Finding::Passing, Finding::Remembered] {
            assert_eq!(table.find(given(b"usual")), finding);
        }
        for number in 0..10_000_u64 {
            assert_eq!(table.find(given(&number.to_be_bytes())), Finding::Passing);
        }
        // Where nothing is expected, it is found by its place.
        table.begin(Kind::Trailers);
        assert_eq!(table.find(given(b"usual")), Finding::Indexed(62));
    }
}
