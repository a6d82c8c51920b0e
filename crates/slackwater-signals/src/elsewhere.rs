//! Systems other than Linux: the CPU time of this process, and how many CPUs it may use.

use crate::finding::{Figure, Finding, Found, Origin};
use crate::reading::{CoresLimit, LimitedBy, Reading};
use crate::target::Target;
use core::time::Duration;

/// The readable figures of a target.
#[derive(Debug)]
pub struct Source {
    this_process: bool,
    cpus: Option<u32>,
    findings: Vec<Finding>,
}

impl Source {
    /// Finds out which figures can be read.
    pub fn open(target: &Target) -> Self {
        let this_process = *target == Target::ThisProcess;
        let cpus = std::thread::available_parallelism().ok();
        let cpus = cpus.and_then(|cpus| u32::try_from(cpus.get()).ok());
        let cpus = cpus.filter(|_| this_process);
        let used: Found = match used().filter(|_| this_process) {
            Some(_) => Ok((Origin::ProcessClock, "CPU clock of this process".to_owned())),
            None => Err(ONLY_THIS.to_owned()),
        };
        let allowed = match cpus {
            Some(_) => Ok((Origin::Parallelism, "available parallelism".to_owned())),
            None => Err(ONLY_THIS.to_owned()),
        };
        let mut findings = vec![
            Finding::new(Figure::Used, used),
            Finding::new(Figure::AllowedCpus, allowed),
        ];
        for figure in [
            Figure::Waited,
            Figure::Quota,
            Figure::Throttled,
            Figure::Stalled,
            Figure::Weight,
        ] {
            findings.push(Finding::new(figure, Err("only on Linux".to_owned())));
        }
        Self {
            this_process,
            cpus,
            findings,
        }
    }

    /// Returns the findings of the opening, figure by figure.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns where a figure comes from; `None`: it is not available.
    pub fn origin(&self, figure: Figure) -> Option<Origin> {
        let mut findings = self.findings.iter();
        findings.find(|it| it.figure == figure)?.origin
    }

    /// Reads the current figures.
    pub fn read(&mut self) -> Reading {
        let cores_limit = self.cpus.map(|cpus| CoresLimit {
            millicores: cpus.saturating_mul(1000),
            by: LimitedBy::AllowedCpus,
        });
        Reading {
            used: used().filter(|_| self.this_process),
            cores_limit,
            ..Reading::default()
        }
    }

    /// Same as [`read`](Self::read): on these systems there is nothing to leave out.
    pub fn read_times(&mut self) -> Reading {
        self.read()
    }

    /// Same as [`read`](Self::read): on these systems there is nothing to leave out.
    pub fn read_times_and_limits(&mut self) -> Reading {
        self.read()
    }
}

const ONLY_THIS: &str = "on this system only the calling process can be read, if any";

#[cfg(unix)]
fn used() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).ok()
}

#[cfg(not(unix))]
fn used() -> Option<Duration> {
    None
}
