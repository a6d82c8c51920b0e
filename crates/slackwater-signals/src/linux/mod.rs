//! Linux: opens the files of a target and takes readings of it.

mod group;
mod limits;
mod listing;
mod places;
mod process;
mod small_file;
mod threads;

use crate::finding::{Figure, Finding, Found, Origin};
use crate::reading::Reading;
use crate::target::Target;
use group::GroupUsed;
use limits::Limits;
use listing::{Listing, directory};
use places::Places;
use process::{Process, waits_are_counted};
use rustix::fs::CWD;
use small_file::SmallFile;
use threads::Watched;

/// The readable figures of a target. What is available is decided when it is opened, and does not
/// change.
#[derive(Debug)]
pub struct Source {
    /// The process that is read, if the target is one.
    process: Option<Process>,
    used: Option<Used>,
    waited: Option<Waited>,
    limits: Limits,
    throttled: Option<SmallFile>,
    stalled: Option<SmallFile>,
    findings: Vec<Finding>,
}

#[derive(Debug)]
enum Used {
    Process,
    Group(GroupUsed),
    /// CPU time of the watched threads.
    Threads,
}

#[derive(Debug)]
enum Waited {
    Threads(Watched),
    /// A lower bound: the wall time during which at least one thread waited is at most the waiting
    /// of all threads.
    Stalled,
    Throttled,
}

/// The figures of one reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    TimesAndLimits,
    Times,
}

/// The parts that differ between processes and groups.
struct Parts {
    process: Option<Process>,
    used: Result<(Used, (Origin, String)), String>,
    threads: Result<(Watched, String), String>,
    places: Result<Places, String>,
}

impl Source {
    /// Finds out what can be read. A target that does not exist has empty readings, with the reason
    /// in [`findings`](Self::findings). If things appear later (a controller, pressure, a process),
    /// open another source.
    pub fn open(target: &Target) -> Self {
        let parts = match target {
            Target::ThisProcess => Parts::of_process(Ok(Process::this()), true),
            Target::Process(id) => Parts::of_process(Process::other(*id), false),
            Target::OwnCgroup => Parts::of_group(Places::of_process(std::process::id(), true)),
            Target::Cgroup(path) => Parts::of_group(Places::of_directory(path)),
        };
        Self::from_parts(parts)
    }

    fn from_parts(parts: Parts) -> Self {
        let Parts {
            process,
            used,
            threads,
            places,
        } = parts;
        let (used, used_found) = unzip(used);
        let (throttled, throttled_found) =
            unzip(places.clone().and_then(|it| group::throttling(&it)));
        let (stalled, stalled_found) = unzip(match (&process, &places) {
            // The machine's pressure has no meaning for a target that does not exist.
            (None, Err(reason)) => Err(reason.clone()),
            _ => group::pressure(&places),
        });
        let (waited, waited_found) = match threads {
            Ok((watched, detail)) => (
                Some(Waited::Threads(watched)),
                Ok((Origin::Threads, detail)),
            ),
            Err(reason) if process.is_some() => (None, Err(reason)),
            // For a process the bound would include the waiting of other processes of its group.
            Err(reason) => lower_bound(&reason, &throttled_found, &stalled_found),
        };
        let threads = match &waited {
            Some(Waited::Threads(threads)) => Some(threads),
            _ => None,
        };
        let (limits, quota_found, cpus_found) = Limits::open(process.as_ref(), threads, &places);
        let weight_found = places.and_then(|places| group::weight(&places));
        let findings = vec![
            Finding::new(Figure::Used, used_found),
            Finding::new(Figure::Waited, waited_found),
            Finding::new(Figure::Quota, quota_found),
            Finding::new(Figure::AllowedCpus, cpus_found),
            Finding::new(Figure::Throttled, throttled_found),
            Finding::new(Figure::Stalled, stalled_found),
            Finding::new(Figure::Weight, weight_found),
        ];
        Self {
            process,
            used,
            waited,
            limits,
            throttled,
            stalled,
            findings,
        }
    }

    /// Returns the findings of the opening, figure by figure.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns where a figure comes from; `None`: it is not available. It does not change while the
    /// source is open.
    pub fn origin(&self, figure: Figure) -> Option<Origin> {
        let mut findings = self.findings.iter();
        findings.find(|it| it.figure == figure)?.origin
    }

    /// Reads the current figures. It takes some system calls, among them one for each watched
    /// thread. It allocates only if there are more threads than ever before.
    pub fn read(&mut self) -> Reading {
        self.read_these(Which::All)
    }

    /// Reads only what changes all the time: CPU time and waiting. Limit and quota period are from
    /// the last [`read`](Self::read). Throttling and pressure are left out. This halves the system
    /// calls if there are few threads. Use it for frequent readings, with a full `read` once in a
    /// while.
    pub fn read_times(&mut self) -> Reading {
        self.read_these(Which::Times)
    }

    /// Same as [`read_times`](Self::read_times), with the current limit and quota period.
    pub fn read_times_and_limits(&mut self) -> Reading {
        self.read_these(Which::TimesAndLimits)
    }

    fn read_these(&mut self, which: Which) -> Reading {
        if self.process.as_ref().is_some_and(Process::has_ended) {
            return Reading::default();
        }
        let throttled = || self.throttled.as_ref().and_then(group::read_throttled);
        let stalled = || self.stalled.as_ref().and_then(group::read_pressure);
        // A lower bound of the waiting needs its file even if throttling and pressure are left out.
        let (waits_throttled, waits_stalled) = (
            matches!(self.waited, Some(Waited::Throttled)),
            matches!(self.waited, Some(Waited::Stalled)),
        );
        let mut reading = Reading {
            throttled: (which == Which::All || waits_throttled)
                .then(throttled)
                .flatten(),
            stalled: (which == Which::All || waits_stalled)
                .then(stalled)
                .flatten(),
            ..Reading::default()
        };
        let mut watched = None;
        match &mut self.waited {
            Some(Waited::Threads(threads)) => {
                let sum = threads.read();
                reading.waited = Some(sum.waited);
                reading.used_by_watched = Some(sum.used);
                reading.busiest_thread = sum.busiest;
                reading.threads = Some(sum.threads);
                watched = Some(&*threads);
            }
            Some(Waited::Stalled) => reading.waited = reading.stalled,
            Some(Waited::Throttled) => reading.waited = reading.throttled.map(|it| it.time),
            None => {}
        }
        reading.used = match &self.used {
            Some(Used::Process) => self.process.as_ref().and_then(Process::used),
            Some(Used::Group(group)) => group.read(),
            Some(Used::Threads) => reading.used_by_watched,
            None => None,
        };
        // A lower bound counts the whole group as one thread: its CPU time is the group's.
        if reading.used_by_watched.is_none() && reading.waited.is_some() {
            reading.used_by_watched = reading.used;
        }
        (reading.cores_limit, reading.quota_period) = match which {
            Which::All | Which::TimesAndLimits => self.limits.read(watched),
            Which::Times => self.limits.last(),
        };
        reading
    }
}

impl Parts {
    fn of_process(process: Result<Process, String>, ours: bool) -> Self {
        match process {
            Ok(process) => Self {
                used: Ok((Used::Process, process.found())),
                threads: process.threads(),
                places: Places::of_process(process.id(), ours),
                process: Some(process),
            },
            Err(reason) => Self::nothing(&reason),
        }
    }

    fn of_group(places: Result<Places, String>) -> Self {
        let places = match places {
            Ok(places) => places,
            Err(reason) => return Self::nothing(&reason),
        };
        let threads = threads_of(&places);
        let used = match (GroupUsed::open(&places), &threads) {
            (Ok((used, found)), _) => Ok((Used::Group(used), found)),
            (Err(reason), Ok(_)) => {
                let detail = format!("schedstat of its threads, because {reason}");
                Ok((Used::Threads, (Origin::Threads, detail)))
            }
            (Err(reason), Err(_)) => Err(reason),
        };
        Self {
            process: None,
            used,
            threads,
            places: Ok(places),
        }
    }

    fn nothing(reason: &str) -> Self {
        Self {
            process: None,
            used: Err(reason.to_owned()),
            threads: Err(reason.to_owned()),
            places: Err(reason.to_owned()),
        }
    }
}

/// Opens the threads of a group, if they can be seen from here.
fn threads_of(places: &Places) -> Result<(Watched, String), String> {
    waits_are_counted()?;
    let proc = directory(CWD, "/proc").map_err(|error| format!("/proc: {error}"))?;
    let watched = Watched::new(Listing::Group(places.listing()?), proc);
    let list = places.cpu.join(places.version.threads_file());
    let list = list.display();
    if watched.is_empty() && watched.hidden() {
        return Err(format!(
            "the threads in {list} are of another namespace of process ids"
        ));
    }
    Ok((watched, format!("schedstat of the threads in {list}")))
}

/// Picks a lower bound of a group's waiting where its threads cannot be seen. It counts the whole
/// group as a single thread.
fn lower_bound(reason: &str, throttled: &Found, stalled: &Found) -> (Option<Waited>, Found) {
    let at_least = |origin: Origin, detail: &str| {
        let detail = format!("a lower bound by {detail}, because {reason}");
        Ok((origin, detail))
    };
    match (stalled, throttled) {
        (Ok((origin @ Origin::CgroupPressure, detail)), _) => {
            (Some(Waited::Stalled), at_least(*origin, detail))
        }
        (_, Ok((origin, detail))) => (Some(Waited::Throttled), at_least(*origin, detail)),
        _ => (None, Err(reason.to_owned())),
    }
}

/// Separates what can be read from where it was found.
fn unzip<T>(opened: Result<(T, (Origin, String)), String>) -> (Option<T>, Found) {
    match opened {
        Ok((value, found)) => (Some(value), Ok(found)),
        Err(reason) => (None, Err(reason)),
    }
}
