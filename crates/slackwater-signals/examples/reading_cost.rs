//! What one reading costs: `cargo run --release -p slackwater-signals --example reading_cost`.
//!
//! With a directory, of that cgroup; without, of this process with 1, 16, 64 and 256 threads that
//! sleep: CPU time, user and kernel, so that it does not matter what else the machine does. With
//! `--threads N --readings R` it reads so often and says nothing: two runs under `valgrind
//! --tool=callgrind` that differ in R give the instructions of a reading, without the kernel's;
//! with `--times R` of one of times alone.

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

/// Microseconds of CPU for each reading, by rounds.
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
            // The clock reads as much itself, of the same threads.
            round_us / f64::from(READINGS_PER_ROUND)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (median, longest) = (rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    format!("{median:9.1}  {longest:10.1}")
}

/// Threads that wait for their end.
struct Sleepers {
    threads: Vec<JoinHandle<()>>,
    ends: Vec<Sender<()>>,
}

impl Sleepers {
    /// With the one that asks it is so many.
    fn up_to(total: usize) -> Self {
        let (mut threads, mut ends) = (Vec::new(), Vec::new());
        for _ in 1..total {
            let (end, wait) = channel();
            ends.push(end);
            threads.push(spawn(move || {
                // Only the end of the channel ends it.
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
