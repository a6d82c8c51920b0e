//! Programs for experiments with keys, beside `slackwater`: replicas with a cache, and a generator
//! of load whose requests have keys. `cargo xtask caches` runs both.

mod cache;
mod client;
mod keys;
mod load;
mod replica;
mod summary;

use clap::{Args, Parser, Subcommand};
use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use keys::Population;
use std::io::Write;

/// The request header with the key.
const KEY: &str = "x-key";

/// Replicas with a cache, and load with keys.
#[derive(Debug, Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Answer HTTP/1.1; a request whose key is in the cache takes less time
    Replica(Replica),
    /// Send each key once, one after the other, the rarest first and the hot one last, so that
    /// caches are warm; print the last response, which names the hot key's replica
    Fill(Fill),
    /// Send requests at a fixed rate, whatever the responses; print what clients saw as JSON
    Load(Load),
}

#[derive(Debug, Args)]
struct Replica {
    /// Listener's address
    listen: SocketAddr,
    /// Its number, which its responses name
    #[arg(long, value_name = "N", default_value_t = 0)]
    index: u32,
    /// Requests that are served at once; more wait in order of arrival
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=512))]
    workers: u16,
    /// Time of a request in milliseconds whose key is in the cache
    #[arg(long, value_name = "MS", default_value_t = 50)]
    hit_ms: u32,
    /// Additional time of a request in milliseconds whose key is not
    #[arg(long, value_name = "MS", default_value_t = 100)]
    miss_ms: u32,
    /// Keys that the cache holds, at least 1; the least recently used is evicted
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    cache: u32,
    /// Time of each request in percent of that; 0: none. `/pace?percent=N` changes it
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pace: u32,
}

#[derive(Debug, Args)]
struct Fill {
    /// The balancers, in turn
    #[arg(required = true)]
    balancers: Vec<SocketAddr>,
    #[command(flatten)]
    keys: Keys,
}

#[derive(Debug, Args)]
struct Load {
    /// The balancers; each request goes to one at random
    #[arg(required = true)]
    balancers: Vec<SocketAddr>,
    #[command(flatten)]
    keys: Keys,
    /// Requests per second, at random intervals
    #[arg(long, value_name = "N")]
    rate: u32,
    /// Seconds that are left out of the results
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u32,
    /// Seconds in the results
    #[arg(long, value_name = "N")]
    seconds: u32,
    /// Longest time of a request in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout_ms: u32,
}

#[derive(Debug, Args)]
struct Keys {
    /// Distinct keys, at least 1
    #[arg(long = "keys", value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Exponent of Zipf's law: the key of rank r has a share proportional to r^-S
    #[arg(long, value_name = "S", default_value_t = 0.9)]
    zipf: f64,
    /// Share of requests in percent that have one further key
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    hot_percent: u32,
    /// Seed of names, order and times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Keys {
    fn population(&self) -> Population {
        Population::new(self.seed, self.count, self.zipf, self.hot_percent)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let milliseconds = |number: u32| Duration::from_millis(number.into());
    match Command::parse().role {
        Role::Replica(replica) => replica::serve(
            replica.listen,
            &replica::Settings {
                index: replica.index,
                workers: replica.workers.into(),
                hit: milliseconds(replica.hit_ms),
                miss: milliseconds(replica.miss_ms),
                cache: usize::try_from(replica.cache)?,
                pace_percent: replica.pace,
            },
        )?,
        Role::Fill(fill) => {
            let keys = fill.keys.population();
            let last = load::runtime()?.block_on(load::fill(&fill.balancers, &keys))?;
            write!(std::io::stdout(), "{last}")?;
        }
        Role::Load(load) => {
            let keys = load.keys.population();
            let plan = load::Plan {
                rate: load.rate.into(),
                warmup: Duration::from_secs(load.warmup.into()),
                measured: Duration::from_secs(load.seconds.into()),
                timeout: milliseconds(load.timeout_ms),
                seed: load.keys.seed,
            };
            let seen = load::runtime()?.block_on(load::send(&load.balancers, &keys, &plan));
            writeln!(std::io::stdout(), "{}", seen.json())?;
        }
    }
    Ok(())
}
