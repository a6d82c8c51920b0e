//! Interprets bytes as operations on every policy of the core: no panic, pools and probes within
//! bounds, every query and every probe ends once. The core's own test feeds the same machine with
//! random bytes.
//!
//! `cargo +nightly fuzz run core_operations -- -max_len=4096`

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/slackwater-core/tests/operations/machine.rs"]
mod machine;

fuzz_target!(|input: &[u8]| machine::play(input));
