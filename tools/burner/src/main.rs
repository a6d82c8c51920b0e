//! Programs for experiments with real processes, beside `slackwater`: replicas whose requests burn
//! CPU, and neighbours that take the CPU from them. `cargo xtask room` runs both under quotas and
//! shares of the kernel.

mod burn;
mod costs;
mod replica;

use clap::{Args, Parser, Subcommand};
use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use costs::Costs;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::net::TcpListener;

/// Burns CPU.
#[derive(Debug, Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Answer HTTP/1.1; each request burns CPU
    Replica(Replica),
    /// Burn the CPU with one thread until ended
    Neighbour(Pinned),
}

#[derive(Debug, Args)]
struct Replica {
    /// Listener's address
    listen: SocketAddr,
    /// CPU time of a request in microseconds: mean and standard deviation before it is clipped at
    /// 0; 0: none
    #[arg(long, value_name = "US", default_value_t = 2_000)]
    cost_us: u32,
    /// Factor on the CPU time of every request, as on older hardware; 1 to 100
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    slower: u32,
    /// Requests that burn at once, 1 to 512, a thread each; more wait in turn. With 1, the only
    /// thread also carries connections
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: u16,
    /// Seed of the costs of requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pinned: Pinned,
}

#[derive(Debug, Args)]
struct Pinned {
    /// Run on this core only, from 0
    #[arg(long, value_name = "N")]
    core: Option<usize>,
}

impl Pinned {
    /// Sets the core before there is a second thread, so that it applies to all threads.
    fn pin(&self) -> Result<(), String> {
        let Some(core) = self.core else {
            return Ok(());
        };
        if core >= CpuSet::MAX_CPU {
            return Err(format!("--core {core}: there is no such core"));
        }
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None, &set)
            .map_err(|error| format!("--core {core}: cannot run there alone: {error}"))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    match Command::parse().role {
        Role::Neighbour(pinned) => {
            pinned.pin()?;
            loop {
                burn::turn();
            }
        }
        Role::Replica(replica) => {
            replica.pinned.pin()?;
            let listener = TcpListener::bind(replica.listen)
                .map_err(|error| format!("{}: cannot listen: {error}", replica.listen))?;
            let mean = Duration::from_micros(replica.cost_us.into()) * replica.slower;
            let costs = Costs::new(replica.seed, mean);
            replica::serve(listener, costs, replica.threads.into())?;
            Ok(())
        }
    }
}
