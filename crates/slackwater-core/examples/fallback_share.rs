//! How many picks are left to chance, in steady state, by size of the fleet and rate of probes.
//! `[A8]` `[A9]` `[A10]`
//!
//! One client, Poisson queries, probes answered after 0.3 ms, default settings but for the rate of
//! probes. The table is the evidence of Decision 0001; `tests/fallback.rs` asserts it.
//!
//! ```text
//! cargo run --release -p slackwater-core --example fallback_share
//!
//! share of picks left to chance, in per cent
//!  queries/s  probes |    n=2    n=3    n=5    n=8   n=16   n=24   n=25  n=100
//! ----------------------------------------------------------------------------
//!       1000       3 |   0.00   0.00   0.04   0.04   0.01   0.00   0.00   0.00
//!       1000       1 |   0.00   0.00   0.00   0.01   0.00   0.00   0.00   0.00
//!       1000     0.5 |   0.00   0.00   0.00   0.00   0.00   0.00   0.00   0.00
//!      10000       3 |   0.00   0.00   0.00   0.09   0.28   0.41   0.43   0.06
//!      10000       1 |   0.00   0.00   0.00   0.01   0.11   0.16   0.13   0.32
//!      10000     0.5 |   0.00   0.00   0.00   0.01   0.02   0.04   0.04   0.06
//! ```

use slackwater_core::SplitMix64;
use std::io::{self, Write};

#[path = "fallback_share/client.rs"]
mod client;

use client::{Client, FLEETS, PROBE_MILLIONTHS, QUERIES_PER_SECOND};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "share of picks left to chance, in per cent")?;
    write!(out, "{:>10} {:>7} |", "queries/s", "probes")?;
    for replicas in FLEETS {
        write!(out, "{:>7}", format!("n={replicas}"))?;
    }
    writeln!(out, "\n{}", "-".repeat(20 + 7 * FLEETS.len()))?;
    for queries_per_second in QUERIES_PER_SECOND {
        for millionths in PROBE_MILLIONTHS {
            write!(
                out,
                "{queries_per_second:>10} {:>7} |",
                f64::from(millionths) / 1e6
            )?;
            for replicas in FLEETS {
                let client = Client::new(replicas, millionths, queries_per_second);
                let share = client.fallback_share(20_000, 200_000, &mut SplitMix64::new(1));
                write!(out, "{:>7.2}", share * 100.0)?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
