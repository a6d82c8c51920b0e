//! Cost of one reading: `cargo run --release -p slackwater-signals --example reading_cost`.
//!
//! With a directory, it reads that cgroup. Without one, it reads this process with 1, 16, 64 and
//! 256 sleeping threads. It measures CPU time, user and kernel, so other work on the machine does
//! not matter. With `--threads N --readings R` it reads R times and prints nothing: two runs under
//! `valgrind --tool=callgrind` that differ in R give the instructions of one reading, without the
//! kernel's. `--times R` does so with readings of times only.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program for people"
)]

use slackwater_signals::{Source, Target};
use std::env::args;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, spawn};

const ROUNDS: usize = 200;
const READINGS_PER_ROUND: u32 = 50;

fn main() -> ExitCode {
    let arguments: Vec<String> = args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => {
            println!("threads  median_us  longest_us");
            for threads in [1, 16, 64, 256] {
                let sleepers = Sleepers::up_to(threads);
                println!("{threads:7}  {}", cost(&Target::ThisProcess));
                sleepers.end();
            }
        }
        [
            "--threads",
            threads,
            what @ ("--readings" | "--times"),
            readings,
        ] => {
            let (Ok(threads), Ok(readings)) = (threads.parse(), readings.parse::<u32>()) else {
                eprintln!("threads and readings are whole numbers");
                return ExitCode::from(2);
            };
            let sleepers = Sleepers::up_to(threads);
            let mut source = Source::open(&Target::ThisProcess);
            for _ in 0..readings {
                if *what == "--times" {
                    source.read_times();
                } else {
                    source.read();
                }
            }
            sleepers.end();
        }
        [group] => {
            let target = Target::Cgroup(group.into());
            for finding in Source::open(&target).findings() {
                println!("{finding}");
            }
            println!("median_us  longest_us");
            println!("{}", cost(&target));
        }
        _ => {
            eprintln!("usage: reading_cost [CGROUP | --threads N --readings|--times R]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Returns microseconds of CPU for each reading, by rounds.
fn cost(target: &Target) -> String {
    let mut clock = Source::open(&Target::ThisProcess);
    let mut used_us = || clock.read().used.unwrap_or_default().as_secs_f64() * 1e6;
    let mut source = Source::open(target);
    source.read();
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begun_us = used_us();
            for _ in 0..READINGS_PER_ROUND {
                source.read();
            }
            let round_us = used_us() - begun_us;
            // The clock's own readings cost as much: they read the same threads.
            round_us / f64::from(READINGS_PER_ROUND)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (median, longest) = (rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    format!("{median:9.1}  {longest:10.1}")
}

/// Threads that sleep until they are dropped.
struct Sleepers {
    threads: Vec<JoinHandle<()>>,
    ends: Vec<Sender<()>>,
}

impl Sleepers {
    /// Starts threads until there are `total`, including the calling thread.
    fn up_to(total: usize) -> Self {
        let (mut threads, mut ends) = (Vec::new(), Vec::new());
        for _ in 1..total {
            let (end, wait) = channel();
            ends.push(end);
            threads.push(spawn(move || {
                // `recv` returns only when the channel is closed.
                let _ = wait.recv();
            }));
        }
        Self { threads, ends }
    }

    fn end(self) {
        drop(self.ends);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
