//! How fast the engine is: one step of Fig. 6 (load 1.27, 100 clients, 100 replicas) under policies with and without probes.
//!
//! `cargo run --profile quick -p slackwater-sim --example throughput [seconds [policy ...]]`

use core::error::Error;
use core::time::Duration;
use slackwater_sim::scenario::{Antagonists, Cost, Delay, Group, Load, Network, Service, Sharing};
use slackwater_sim::{PolicyChoice, Scenario};
use std::io::Write;

/// Load as a multiple of the allocation.
const LOAD: f64 = 1.27;
const REPLICAS: usize = 100;
const CLIENTS: usize = 100;
/// What each replica is allocated.
const CORES: f64 = 6.4;

fn testbed(span: Duration) -> Scenario {
    let cost = Cost::ClippedNormal {
        mean: Duration::from_micros(79_700),
        deviation: Duration::from_micros(79_700),
    };
    let rate = LOAD * CORES * REPLICAS as f64 / (cost.mean_ns() / 1e9);
    let service = Service::Shared(Sharing {
        cores: CORES,
        bucket: CORES,
        burst: 3.0,
        contention_loss: 0.1,
    });
    Scenario {
        load: Load::even(rate, CLIENTS),
        cost,
        fleet: vec![Group::healthy(REPLICAS, service)],
        antagonists: Some(Antagonists {
            spare_median: 0.8,
            sigma_below: 0.68,
            sigma_above: 1.2,
            spare_max: 64.0,
            slow: Duration::from_secs(10),
            fast: Duration::from_millis(300),
            full_machines: 1,
            full_for: Duration::from_secs(80),
            machines: REPLICAS,
        }),
        network: Network {
            delay: Delay {
                least: Duration::from_micros(100),
                most: Duration::from_micros(300),
            },
            probe_loss: 0.0,
        },
        events: Vec::new(),
        deadline: Duration::from_secs(5),
        cancel_expired: false,
        warmup: span,
        span,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(10), |seconds| seconds.parse())?;
    let mut policies: Vec<String> = arguments.collect();
    if policies.is_empty() {
        policies = ["prequal", "round_robin"].map(str::to_owned).to_vec();
    }
    let scenario = testbed(Duration::from_secs(seconds));
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<14} {:>10} {:>6} {:>10} {:>9} {:>9} {:>9} {:>8}",
        "policy", "events", "wall s", "events/s", "p50 ms", "p99 ms", "p99.9 ms", "errors %"
    )?;
    for name in policies {
        let policy = PolicyChoice::named(&name).ok_or_else(|| format!("no policy `{name}`"))?;
        let measured = slackwater_sim::run(&scenario, &policy, 1);
        let ms = |q| measured.latency.quantile(q).as_secs_f64() * 1e3;
        writeln!(
            out,
            "{name:<14} {:>10} {:>6.2} {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>8.3}",
            measured.events,
            measured.wall.as_secs_f64(),
            measured.events_per_second(),
            ms(0.5),
            ms(0.99),
            ms(0.999),
            measured.error_share() * 100.0,
        )?;
    }
    Ok(())
}
