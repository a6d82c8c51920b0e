//! Plays mutants: programs with tests run with a mutant active, until one of them fails.

use crate::mutants::outcomes::Outcome;
use crate::mutants::tree::Built;
use crate::output::progress;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Address space of a program: mutants may allocate without end.
const MEMORY_MAX_KIB: u64 = 4 << 20;
/// A program that takes longer than this and ten times its usual time does not end.
const TIME_MIN: Duration = Duration::from_secs(3);
/// Mutants between two lines of progress.
const PROGRESS_STEP: usize = 100;

/// A program with tests, and how long it takes without a mutant.
#[derive(Debug)]
struct Program {
    executable: PathBuf,
    folder: PathBuf,
    takes: Duration,
}

/// The tests that have to notice.
#[derive(Debug)]
pub(super) struct Judge {
    /// The quick ones first.
    programs: Vec<Program>,
    /// The only test; none: all.
    test: Option<&'static str>,
}

impl Judge {
    /// Runs the programs without a mutant. Fails if a test fails.
    pub(super) fn new(built: Vec<Built>, test: Option<&'static str>) -> Result<Self, String> {
        let mut judge = Self {
            programs: Vec::new(),
            test,
        };
        for Built { executable, folder } in built {
            let mut program = Program {
                executable,
                folder,
                takes: Duration::from_mins(10),
            };
            let began = Instant::now();
            if judge.run(&program, None)? != Outcome::Missed {
                let name = program.executable.display();
                return Err(format!("{name}: fails without any mutant"));
            }
            program.takes = began.elapsed();
            judge.programs.push(program);
        }
        judge.programs.sort_by_key(|it| it.takes);
        Ok(judge)
    }

    /// How long all programs take without a mutant.
    pub(super) fn takes(&self) -> Duration {
        self.programs.iter().map(|it| it.takes).sum()
    }

    /// Plays these mutants, one for each core at a time, and reports each outcome at once.
    pub(super) fn play(
        &self,
        mutants: &[usize],
        report: &(impl Fn(usize, Outcome) -> Result<(), String> + Sync),
    ) -> Result<BTreeMap<usize, Outcome>, String> {
        let next = AtomicUsize::new(0);
        let outcomes = Mutex::new(BTreeMap::new());
        let work = || -> Result<(), String> {
            while let Some(&mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = self.one(Some(mutant))?;
                report(mutant, outcome)?;
                let Ok(mut outcomes) = outcomes.lock() else {
                    break;
                };
                outcomes.insert(mutant, outcome);
                if outcomes.len() % PROGRESS_STEP == 0 {
                    let missed = outcomes.values().filter(|it| **it == Outcome::Missed);
                    let (played, missed) = (outcomes.len(), missed.count());
                    progress(&format!("{played} of {}, {missed} missed", mutants.len()));
                }
            }
            Ok(())
        };
        on_all_cores(work)?;
        outcomes.into_inner().map_err(|error| error.to_string())
    }

    /// Plays one mutant, or the code as it was built.
    pub(super) fn one(&self, mutant: Option<usize>) -> Result<Outcome, String> {
        for program in &self.programs {
            let outcome = self.run(program, mutant)?;
            if outcome != Outcome::Missed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Missed)
    }

    fn run(&self, program: &Program, mutant: Option<usize>) -> Result<Outcome, String> {
        let name = program.executable.display();
        let limited = format!("ulimit -v {MEMORY_MAX_KIB}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-c", &limited])
            .arg(&program.executable)
            .args(["-Zunstable-options", "--fail-fast", "--test-threads=1"])
            .current_dir(&program.folder)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUST_BACKTRACE", "0")
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env_remove("MUTANT")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(test) = self.test {
            command.args(["--exact", test]);
        }
        if let Some(mutant) = mutant {
            command.env("MUTANT", mutant.to_string());
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let deadline = Instant::now() + program.takes * 10 + TIME_MIN;
        loop {
            match child.try_wait() {
                Err(error) => return Err(format!("{name}: {error}")),
                Ok(Some(status)) if status.success() => return Ok(Outcome::Missed),
                Ok(Some(_)) => return Ok(Outcome::Caught),
                Ok(None) if Instant::now() > deadline => {
                    // Errors do not matter: it has ended by itself.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ok(Outcome::TimedOut);
                }
                Ok(None) => thread::sleep(Duration::from_millis(3)),
            }
        }
    }
}

/// Does the work on each core at the same time.
pub(super) fn on_all_cores(work: impl Fn() -> Result<(), String> + Sync) -> Result<(), String> {
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(&work)).collect();
        let mut ends = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ends.try_for_each(|it| it.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })
}
