//! Maglev's lookup table.
//!
//! Each member fills the table in its own order, in turns, so that all have the same number of
//! places, plus or minus one. `[Maglev, NSDI 2016, §3.4]`

use super::mixed;

/// Places: Envoy's default, a prime.
const PLACES: u64 = 65_537;

/// The index of the member at each place.
#[derive(Debug)]
pub(super) struct Maglev(Vec<u16>);

impl Maglev {
    /// Members of a table: more would need more places.
    const MEMBERS_MAX: usize = 10_000;

    pub(super) fn new(names: &[u64]) -> Self {
        const FREE: u16 = u16::MAX;
        let names = &names[..names.len().min(Self::MEMBERS_MAX)];
        let mut places = vec![FREE; index(PLACES)];
        let mut orders: Vec<Order> = names.iter().copied().map(Order::new).collect();
        let mut filled = 0;
        while filled < PLACES && !orders.is_empty() {
            for (member, order) in (0_u16..).zip(&mut orders) {
                let mut place = order.next();
                while places[place] != FREE {
                    place = order.next();
                }
                places[place] = member;
                filled += 1;
                if filled == PLACES {
                    break;
                }
            }
        }
        if names.is_empty() {
            places.clear();
        }
        Self(places)
    }

    /// Returns the member of a key; `None` without members.
    pub(super) fn at(&self, key: u64) -> Option<usize> {
        let place = self.0.get(index(key % PLACES));
        place.map(|&member| usize::from(member))
    }
}

/// The order in which a member takes places.
#[derive(Debug)]
struct Order {
    next: u64,
    skip: u64,
}

impl Order {
    fn new(name: u64) -> Self {
        Self {
            next: mixed(name) % PLACES,
            skip: mixed(name ^ 1) % (PLACES - 1) + 1,
        }
    }

    fn next(&mut self) -> usize {
        let place = self.next;
        self.next = (self.next + self.skip) % PLACES;
        index(place)
    }
}

fn index(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}
