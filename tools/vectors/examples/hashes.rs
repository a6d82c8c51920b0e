//! Prints file, number and hash of each of many scenarios: those that differ after a change of the
//! core break by it. `cargo xtask mutants --vectors --search N` runs it with mutants.
//!
//! The argument is the number of scenarios of policies, about.

use core::hash::{Hash, Hasher};
use slackwater_vectors::{Amount, LONG, files};
use std::hash::DefaultHasher;
use std::io::Write;
use std::panic::catch_unwind;

/// One in this many scenarios more is long.
const LONG_SHARE: u64 = 10;

fn main() -> std::io::Result<()> {
    let scenarios = std::env::args().nth(1);
    let scenarios = scenarios.and_then(|it| it.parse::<u64>().ok());
    let long = scenarios.map(|it| it / LONG_SHARE);
    let from = |first, scenarios| {
        files(Amount {
            scenarios,
            first_seed: Some(first),
            ..Amount::COMMITTED
        })
    };
    let mut out = std::io::stdout();
    for file in [from(1, scenarios), from(LONG, long)].concat() {
        for number in file.numbers() {
            let mut hasher = DefaultHasher::new();
            // A change of the core may cause a panic.
            catch_unwind(|| file.text(number))
                .unwrap_or_default()
                .hash(&mut hasher);
            writeln!(out, "{} {number} {:x}", file.path(), hasher.finish())?;
            out.flush()?;
        }
    }
    Ok(())
}
