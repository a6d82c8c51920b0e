//! What the encoder has told the peer to remember, and how it is found again.
//!
//! A field goes into the table when it comes a second time and the first was not long ago. So what changes each time (an
//! identifier, a length, a time) never drives out what is the same in each head, and no list of names has to say which
//! is which. Fields are found by a hash, in one of few places; where these are all taken by fields of the table, a new one
//! is told in full. That loses octets and nothing else, so nobody gains by fields whose hashes collide.

use super::{FIELD_OVERHEAD, TABLE_BYTES, field_size, static_table};
use std::collections::VecDeque;

/// Places that share a part of the hash.
const WAYS: usize = 4;

/// How many times so many places there are: about twice as many as a usual table has fields.
const SETS: usize = 32;

/// Fields above this part of the table are always told in full: a few of them would drive out all others.
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
    places: [Place; WAYS * SETS],
}

#[derive(Debug)]
struct Entry {
    name_length: usize,
    /// The name, and the value behind it.
    octets: Box<[u8]>,
}

/// A field that came not long ago.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: u32,
    /// Which of all told fields it is; 0 if it came only once.
    number: u32,
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
    fn is(&self, name: &[u8], value: &[u8]) -> bool {
        (self.octets.split_at_checked(self.name_length))
            .is_some_and(|(ours, rest)| ours == name && rest == value)
    }

    fn size(&self) -> usize {
        self.octets.len() + FIELD_OVERHEAD
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
            places: [Place { hash: 0, number: 0 }; WAYS * SETS],
        }
    }

    /// Finds a field, and remembers it if that is worth it.
    pub(super) fn find(&mut self, name: &[u8], value: &[u8]) -> Finding {
        let hash = hash(name, value);
        let set = (hash >> 27) as usize * WAYS;
        for at in set..set + WAYS {
            let place = self.places[at];
            if place.hash != hash {
                continue;
            }
            return match self.age(place) {
                Some((age, entry)) if entry.is(name, value) => {
                    Finding::Indexed(static_table::LENGTH + 1 + age)
                }
                // Another field with the same hash.
                Some(_) => Finding::Passing,
                None => self.remember(at, name, value),
            };
        }
        self.taken = self.taken.wrapping_add(1);
        let free = (0..WAYS)
            .map(|way| set + (self.taken + way) % WAYS)
            .find(|at| self.age(self.places[*at]).is_none());
        if let Some(at) = free {
            self.places[at] = Place { hash, number: 0 };
        }
        Finding::Passing
    }

    /// How many fields were told after this one, if it is still in the table.
    fn age(&self, place: Place) -> Option<(usize, &Entry)> {
        if place.number == 0 {
            return None;
        }
        let age = self.told.wrapping_sub(place.number) as usize;
        Some((age, self.entries.get(age)?))
    }

    fn remember(&mut self, at: usize, name: &[u8], value: &[u8]) -> Finding {
        let size = field_size(name.len(), value.len());
        if size > self.bytes_max / PART_MAX {
            return Finding::Passing;
        }
        self.shrink(self.bytes_max - size);
        let mut octets = Vec::with_capacity(name.len() + value.len());
        octets.extend_from_slice(name);
        octets.extend_from_slice(value);
        self.entries.push_front(Entry {
            name_length: name.len(),
            octets: octets.into_boxed_slice(),
        });
        self.bytes += size;
        self.told = self.told.wrapping_add(1);
        self.places[at].number = self.told;
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
            self.bytes -= oldest.size();
        }
    }
}

/// Eight octets at a time; the upper bits are the better ones.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    let mut state = name.len() as u64;
    for octets in [name, value] {
        let (words, rest) = octets.as_chunks::<8>();
        for word in words {
            state = mix(state, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        state = mix(state, u64::from_le_bytes(last));
    }
    (state >> 32) as u32
}

const fn mix(state: u64, word: u64) -> u64 {
    (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}
