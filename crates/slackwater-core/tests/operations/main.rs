//! Random operations, including invalid ones, on every policy: no panic, and all properties hold.
//!
//! The fuzz target `core_operations` plays the same machine with inputs that it searches for. This
//! test plays seeded random ones, so that each change is tested with some. A failure prints its
//! seed.

#![expect(clippy::print_stderr, reason = "tests and their helpers")]

mod machine;

use slackwater_core::{Draw, SplitMix64};

struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("operations of seed {}", self.0);
        }
    }
}

#[test]
fn policies_keep_invariants_under_random_operations() {
    for seed in 0..2_000 {
        let named = Named(seed);
        let mut draw = SplitMix64::new(seed);
        let words = 16 + draw.draw() % 128;
        let mut input: Vec<u8> = (0..words).flat_map(|_| draw.draw().to_le_bytes()).collect();
        // An initial fleet: zeroes at the start of the operations are replicas that join.
        input[54..66].fill(0);
        machine::play(&input);
        drop(named);
    }
}

#[test]
fn empty_input_is_valid() {
    machine::play(&[]);
}
