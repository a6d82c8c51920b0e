//! Speed of the engine: one step of Fig. 6 (load 1.27, 100 clients, 100 replicas) under policies
//! with and without probes.
//!
//! `cargo run --profile quick -p slackwater-sim --example throughput [seconds [policy ...]]`

use core::error::Error;
use core::time::Duration;
use slackwater_sim::{PolicyChoice, presets};
use std::io::Write;

/// Load as a multiple of the allocation.
const LOAD: f64 = 1.27;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(10), |seconds| seconds.parse())?;
    let mut policies: Vec<String> = arguments.collect();
    if policies.is_empty() {
        policies = ["prequal", "round_robin"].map(str::to_owned).to_vec();
    }
    let mut scenario = presets::at_load(LOAD, presets::testbed());
    scenario.warmup = Duration::from_secs(seconds);
    scenario.span = scenario.warmup;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<14} {:>10} {:>6} {:>10} {:>9} {:>9} {:>9} {:>8}",
        "policy", "events", "CPU s", "events/s", "p50 ms", "p99 ms", "p99.9 ms", "errors %"
    )?;
    for name in policies {
        let policy = PolicyChoice::named(&name).ok_or_else(|| format!("no policy `{name}`"))?;
        let measured = slackwater_sim::run(&scenario, &policy, 1);
        let ms = |q| measured.latency.quantile(q).as_secs_f64() * 1e3;
        writeln!(
            out,
            "{name:<14} {:>10} {:>6.2} {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>8.3}",
            measured.events,
            measured.cpu.as_secs_f64(),
            measured.events_per_second(),
            ms(0.5),
            ms(0.99),
            ms(0.999),
            measured.error_share() * 100.0,
        )?;
    }
    Ok(())
}
