//! Two processes with one scenario and seed: every call of every policy and its answer are the
//! same, byte for byte.
//!
//! Within one process this would not show what differs from process to process: the seeds of hash
//! maps, and addresses. Each policy is recorded as users record it, and the hash of its recording
//! is compared. This also shows differences that no measured figure has.

use super::determinism::eventful;
use super::rig::{fingerprint, ms};
use core::cell::{Cell, RefCell};
use core::hash::{Hash, Hasher};
use slackwater_core::policy::{DEFAULT_POLICY, POLICIES, Policy, PolicyEntry, PolicySettings};
use slackwater_recording::{Sink, Stream, record};
use slackwater_sim::policy::{PolicyChoice, PolicyKind};
use slackwater_sim::run;
use std::hash::DefaultHasher;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Set where this test runs in a child process, which prints its traces.
const PRINTS: &str = "SLACKWATER_PRINTS_TRACES";
/// The beginning of a trace's line.
const MARK: &str = "trace of ";
/// The shortest trace of a policy in a second with 500 queries.
const BYTES_MIN: usize = 2_000;

/// The hash of a recording, and its length.
#[derive(Debug, Default)]
struct Trace(Mutex<(DefaultHasher, usize)>);

impl Sink for Trace {
    fn take(&self, stream: u32, events: Vec<u8>) -> bool {
        let mut trace = self.0.lock().expect("not poisoned");
        (stream, &events).hash(&mut trace.0);
        trace.1 += events.len();
        true
    }
}

/// The policies of the run on this thread, and where they are recorded.
struct Recorded {
    entry: &'static PolicyEntry,
    sink: Arc<Trace>,
    streams: Vec<Stream>,
}

thread_local! {
    static RECORDED: RefCell<Option<Recorded>> = const { RefCell::new(None) };
    static SEED: Cell<u64> = const { Cell::new(1) };
}

/// Returns a policy of the run, recorded as one stream of many.
fn recorded(settings: &PolicySettings) -> Box<dyn Policy> {
    RECORDED.with_borrow_mut(|recorded| {
        let recorded = recorded.as_mut().expect("it was set before the run");
        let number = u32::try_from(recorded.streams.len()).expect("a few clients");
        let sink = Arc::clone(&recorded.sink);
        let policy = (recorded.entry.build)(settings);
        let (policy, stream) = record(policy, SEED.get() + u64::from(number), number, sink);
        recorded.streams.push(stream);
        policy
    })
}

static ENTRY: PolicyEntry = PolicyEntry {
    name: "recorded",
    about: "recorded",
    build: recorded,
    ..DEFAULT_POLICY
};

/// Returns the line of a policy: hash and length of its recording, and the hash of all
/// measurements.
fn trace(entry: &'static PolicyEntry, seed: u64) -> String {
    let sink = Arc::new(Trace::default());
    SEED.set(seed);
    RECORDED.set(Some(Recorded {
        entry,
        sink: Arc::clone(&sink),
        streams: Vec::new(),
    }));
    let choice = PolicyChoice {
        name: entry.name.to_owned(),
        kind: PolicyKind::Shipped {
            entry: &ENTRY,
            settings: Box::default(),
            health: None,
            keys: None,
        },
    };
    let mut scenario = eventful();
    scenario.span = ms(600);
    let mut measured = DefaultHasher::new();
    fingerprint(&run(&scenario, &choice, seed)).hash(&mut measured);
    let recorded = RECORDED.take().expect("it was set before the run");
    recorded.streams.iter().for_each(Stream::flush);
    let recording = sink.0.lock().expect("not poisoned");
    assert!(recording.1 >= BYTES_MIN, "{}: {}", entry.name, recording.1);
    format!(
        "{MARK}{}: {:016x} of {} bytes, {:016x}",
        entry.name,
        recording.0.finish(),
        recording.1,
        measured.finish()
    )
}

/// Plays all policies in a child process.
fn traces() -> Vec<String> {
    let name = "two_processes::traces_match_across_two_processes";
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", name, "--nocapture"])
        .env(PRINTS, "1")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let lines = text.lines().filter_map(|line| {
        // The test harness prints before the first line, without an end of line.
        let at = line.find(MARK)?;
        Some(line[at..].to_owned())
    });
    lines.collect()
}

#[test]
fn traces_match_across_two_processes() {
    if std::env::var_os(PRINTS).is_some() {
        for entry in POLICIES {
            println!("{}", trace(entry, 1));
        }
        return;
    }
    let first = traces();
    assert_eq!(first.len(), POLICIES.len(), "{first:?}");
    assert_eq!(first, traces());
    assert_eq!(trace(&POLICIES[0], 1), first[0], "and in this one");
    assert_ne!(trace(&POLICIES[0], 2), first[0], "under another seed");
}
