//! The schedule: faults one at a time, so that the remaining replicas can carry the load, and in
//! between actions on `serve`.

use super::fleet::{Fleet, REPLICAS, Seen};
use super::options::Options;
use super::serve::OVER_HTTP2;
use crate::output::say;
use core::time::Duration;
use rustix::process::Signal;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A fault of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL.
    KillReplica,
    /// SIGSTOP, and later SIGCONT.
    StopReplica,
    /// Ten times slower.
    SlowReplica,
    /// SIGKILL.
    KillAgent,
    /// SIGTERM, and a new agent when it has ended.
    RestartAgent,
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::KillReplica,
        Self::StopReplica,
        Self::SlowReplica,
        Self::KillAgent,
        Self::RestartAgent,
    ];

    /// The name in the report.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::KillReplica => "replica killed",
            Self::StopReplica => "replica stopped",
            Self::SlowReplica => "replica slowed",
            Self::KillAgent => "agent killed",
            Self::RestartAgent => "agent restarted",
        }
    }

    /// Whether requests on the replica may be lost during the fault.
    const fn excuses(self) -> bool {
        match self {
            Self::KillReplica | Self::StopReplica | Self::KillAgent => true,
            Self::SlowReplica | Self::RestartAgent => false,
        }
    }
}

/// A fault that happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Happened {
    pub(super) fault: Fault,
    pub(super) pair: usize,
    /// Start, since 1970.
    pub(super) from: Duration,
    /// Time at which all requests in flight there had been affected.
    pub(super) to: Duration,
}

impl Happened {
    /// Whether this fault may have caused the loss of a request on this pair in that time.
    pub(super) fn excuses(&self, pair: usize, began: Duration, ended: Duration) -> bool {
        self.fault.excuses() && self.pair == pair && began <= self.to && ended >= self.from
    }
}

/// An action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin(Fault, usize),
    End(Fault, usize),
    Upgrade,
    Reload,
    Certificate,
}

/// All actions, by time.
#[derive(Debug)]
pub(super) struct Schedule {
    steps: Vec<(Duration, Step)>,
}

/// Time without actions at the beginning and at the end.
const CALM: Duration = Duration::from_secs(3);

impl Schedule {
    pub(super) fn new(options: &Options) -> Self {
        let length = options.length();
        // A fault lasts less than half of the time until the next one, so its effects are over by
        // then.
        let period = (length / 40).clamp(Duration::from_secs(3), Duration::from_secs(12));
        let lasts = period * 2 / 5;
        let mut steps = Vec::new();
        let mut at = CALM;
        let mut number = 0;
        while at + period + CALM <= length {
            let (fault, pair) = (Fault::ALL[number % Fault::ALL.len()], number % REPLICAS);
            steps.push((at, Step::Begin(fault, pair)));
            steps.push((at + lasts, Step::End(fault, pair)));
            at += period;
            number += 1;
        }
        // In the middle of other actions.
        steps.extend([(length / 3, Step::Upgrade), (length * 2 / 3, Step::Upgrade)]);
        // Fifty in ten minutes, and at least eight.
        let reloads = u32::try_from(length.as_secs() / 12).unwrap_or(u32::MAX);
        let reloads = reloads.clamp(8, 50);
        let at = |number| length * (2 * number + 1) / (2 * reloads + 1);
        steps.extend((0..reloads).map(|number| (at(number), Step::Reload)));
        // Ten in ten minutes, and at least three.
        let certificates = u32::try_from(length.as_secs() / 60).unwrap_or(u32::MAX);
        let certificates = certificates.clamp(3, 10);
        let at = |number| length * (2 * number + 1) / (2 * certificates + 1);
        steps.extend((0..certificates).map(|number| (at(number), Step::Certificate)));
        steps.sort_by_key(|(at, _)| *at);
        Self { steps }
    }
}

/// Results of a run, except the access log.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) faults: Vec<Happened>,
    pub(super) upgrades: u64,
    pub(super) reloads: u64,
    /// Certificates that were replaced, and used from then on.
    pub(super) certificates: u64,
    /// Memory of each generation of `serve`, over time.
    pub(super) resident_bytes: Vec<Vec<u64>>,
    /// Results of each stream of load.
    pub(super) seen: Vec<Seen>,
}

/// Time between two readings of the memory.
const LOOK: Duration = Duration::from_millis(200);

/// Sends the load and executes every action.
pub(super) fn play(
    fleet: &mut Fleet<'_>,
    schedule: &Schedule,
    options: &Options,
) -> Result<Played, String> {
    let length = options.length();
    // A tenth of the requests must not be sent twice.
    let posts = (options.rate / 10).max(1);
    // Another tenth uses TLS.
    let over_tls = posts;
    // The rest uses HTTP/1.1 and HTTP/2, to agents over HTTP/1.1 and HTTP/2, a quarter each.
    let rest = options.rate - posts - over_tls;
    let mut loads = vec![fleet.load(("posts", "/"), posts, length, &["--body-bytes", "1000"])?];
    for (name, path, version) in [
        ("1-to-1", "/", "1"),
        ("1-to-2", OVER_HTTP2, "1"),
        ("2-to-1", "/", "2"),
        ("2-to-2", OVER_HTTP2, "2"),
    ] {
        loads.push(fleet.load((name, path), rest / 4, length, &["--http", version])?);
    }
    let secure = fleet.serve.secure.clone().load(over_tls, length)?;
    let began = Instant::now();
    let mut played = Played {
        faults: Vec::new(),
        upgrades: 0,
        reloads: 0,
        certificates: 0,
        resident_bytes: vec![Vec::new()],
        seen: Vec::new(),
    };
    let mut steps = schedule.steps.iter().peekable();
    while began.elapsed() < length {
        if let Some((_, step)) = steps.next_if(|(at, _)| began.elapsed() >= *at) {
            take(fleet, *step, &mut played)?;
        } else {
            let bytes = fleet.serve.resident_bytes()?;
            if let Some(of_this_generation) = played.resident_bytes.last_mut() {
                of_this_generation.push(bytes);
            }
            std::thread::sleep(LOOK);
        }
    }
    for load in loads {
        played.seen.push(Seen::by(load)?);
    }
    played.seen.push(secure.finish()?);
    Ok(played)
}

fn take(fleet: &mut Fleet<'_>, step: Step, played: &mut Played) -> Result<(), String> {
    match step {
        Step::Begin(fault, pair) => {
            say(&format!("{}: {pair}", fault.as_str()));
            let from = now();
            match fault {
                Fault::KillReplica => fleet.pairs[pair].kill_replica(),
                Fault::StopReplica => fleet.pairs[pair].signal_replica(Signal::STOP)?,
                Fault::SlowReplica => fleet.pairs[pair].signal_replica(Signal::USR1)?,
                Fault::KillAgent => fleet.pairs[pair].kill_agent(),
                Fault::RestartAgent => fleet.pairs[pair].stop_agent()?,
            }
            let to = now();
            played.faults.push(Happened {
                fault,
                pair,
                from,
                to,
            });
        }
        Step::End(fault, pair) => {
            match fault {
                Fault::KillReplica => fleet.start_replica(pair)?,
                Fault::StopReplica => fleet.pairs[pair].signal_replica(Signal::CONT)?,
                Fault::SlowReplica => fleet.pairs[pair].signal_replica(Signal::USR2)?,
                Fault::KillAgent | Fault::RestartAgent => fleet.start_agent(pair)?,
            }
            // Requests on a killed replica are lost at once, on a stopped one for as long as it is
            // stopped.
            if fault == Fault::StopReplica
                && let Some(happened) = played.faults.last_mut()
            {
                happened.to = now();
            }
        }
        Step::Upgrade => {
            say("upgrade");
            fleet.serve.upgrade()?;
            played.upgrades += 1;
            played.resident_bytes.push(Vec::new());
        }
        Step::Reload => {
            fleet.serve.reload()?;
            played.reloads += 1;
        }
        Step::Certificate => {
            fleet.replace_certificates()?;
            played.certificates += 1;
        }
    }
    Ok(())
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn one_pair_has_faults_at_a_time_and_all_end_before_the_load() {
        for arguments in [&["--short"][..], &[], &["--seconds", "3600"]] {
            let options: Options = parse(arguments).unwrap();
            let schedule = Schedule::new(&options);
            let mut suffering = None;
            let mut seen = Vec::new();
            for (at, step) in &schedule.steps {
                assert!(*at < options.length());
                match *step {
                    Step::Begin(fault, pair) => {
                        assert_eq!(suffering.replace((fault, pair)), None);
                        seen.push(fault);
                    }
                    Step::End(fault, pair) => assert_eq!(suffering.take(), Some((fault, pair))),
                    Step::Upgrade | Step::Reload | Step::Certificate => (),
                }
            }
            assert_eq!(suffering, None);
            assert!(
                Fault::ALL.iter().all(|fault| seen.contains(fault)),
                "{arguments:?}"
            );
            let count = |of| {
                schedule
                    .steps
                    .iter()
                    .filter(|(_, step)| *step == of)
                    .count()
            };
            let is_short = options.length() < Duration::from_mins(1);
            let (reloads, certificates) = if is_short { (8, 3) } else { (50, 10) };
            assert_eq!(count(Step::Upgrade), 2);
            assert_eq!(count(Step::Reload), reloads, "{arguments:?}");
            assert_eq!(count(Step::Certificate), certificates, "{arguments:?}");
        }
    }

    #[test]
    fn only_requests_on_a_killed_or_stopped_replica_are_excused() {
        let at = Duration::from_secs;
        let happened = |fault| Happened {
            fault,
            pair: 1,
            from: at(10),
            to: at(12),
        };
        let killed = happened(Fault::KillReplica);
        assert!(killed.excuses(1, at(9), at(10)) && killed.excuses(1, at(12), at(20)));
        assert!(!killed.excuses(1, at(8), at(9)), "it had ended before");
        assert!(!killed.excuses(1, at(13), at(20)), "it began after");
        assert!(!killed.excuses(0, at(9), at(20)), "it was elsewhere");
        for fault in [Fault::SlowReplica, Fault::RestartAgent] {
            assert!(!happened(fault).excuses(1, at(9), at(20)));
        }
    }
}
