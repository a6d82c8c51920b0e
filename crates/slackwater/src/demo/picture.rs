//! The demo's state at one moment, as plain data. The terminal draws it, and a part of it is in
//! live data.
//!
//! This module reads no clock, socket or lock; `observe` does.

use super::replica::trouble::Trouble;
use crate::load::{LatencyFigures, WindowFigures};
use core::time::Duration;
use serde::Serialize;

/// Both sides at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture {
    pub(super) phase: Phase,
    /// Time since the first request was due.
    pub(super) elapsed: Duration,
    /// The demo's length; `None` until it is stopped.
    pub(super) length: Option<Duration>,
    /// Current target rate, in requests per second to each side.
    pub(super) rate: f64,
    /// Whether random slow episodes occur.
    pub(super) weather: bool,
    /// How often a knob was turned.
    pub(super) turns: u64,
    pub(super) seed: u64,
    /// Lateness of the load generators since the start, at p99 and on the worse side: how far this
    /// computer lags behind the schedule.
    pub(super) sent_late_p99_ms: f64,
    /// What both copies of a replica have in common.
    pub(super) replicas: Vec<Weather>,
    pub(super) sides: [Side; 2],
    /// The last whole seconds, oldest first; at most [`super::history::SECONDS`].
    pub(super) history: Vec<Second>,
}

/// The phase of a demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Requests are being sent.
    Running,
    /// No more requests are sent; the demo waits for responses.
    Stopping,
}

/// The state of the machine below a replica, the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Weather {
    /// Capacity that the neighbours leave it, in cores.
    pub(super) capacity_cores: f64,
    /// Whether a slow episode reduces it to a tenth now.
    pub(super) hobbled: bool,
    /// What else is wrong with it.
    pub(super) trouble: Trouble,
}

/// One side.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Side {
    /// The name of its proxy's service.
    pub(super) service: String,
    pub(super) policy: &'static str,
    /// Requests that ended since the start, errors included.
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// The last [`super::observe::RECENT_SECONDS`] seconds.
    pub(super) recent: Recent,
    /// Since the start, or since the last restart of the figures.
    pub(super) overall: Recent,
    pub(super) replicas: Vec<ReplicaState>,
    pub(super) balancer: Balancer,
}

/// Requests that ended within a period.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Recent {
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// `None` if no request ended.
    pub(super) latency: Option<Quantiles>,
}

impl From<&WindowFigures> for Recent {
    fn from(figures: &WindowFigures) -> Self {
        Self {
            requests: figures.requests,
            errors: figures.errors,
            latency: Quantiles::of(figures.requests, &figures.latency),
        }
    }
}

/// Latencies from the intended start, in milliseconds, errors included.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those in JSON, where the unit is needed"
)]
pub(super) struct Quantiles {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
}

impl Quantiles {
    /// Returns the quantiles of `count` requests; `None` if there were none.
    pub(super) fn of(count: u64, figures: &LatencyFigures) -> Option<Self> {
        (count > 0).then_some(Self {
            p50_ms: figures.p50_ms,
            p99_ms: figures.p99_ms,
            p999_ms: figures.p999_ms,
        })
    }
}

/// One replica of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplicaState {
    /// Requests in flight, as its probe answers report.
    pub(super) rif: u32,
    /// The highest seen so far.
    pub(super) rif_high: u32,
    /// Served since the start.
    pub(super) served: u64,
}

/// The state and the counts of a side's proxy.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Balancer {
    /// How often each reason decided a pick since the start; reasons that never did are left out.
    pub(super) picks: Vec<Picks>,
    pub(super) probes_sent: u64,
    pub(super) probes_answered: u64,
    pub(super) probes_lost: u64,
}

/// How often one reason decided a pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Picks {
    pub(super) reason: &'static str,
    pub(super) count: u64,
}

/// Requests that ended in one second of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Second {
    /// Index of the second, from 0.
    pub(super) number: u64,
    /// Index of the replica that was slowed at some time in this second.
    pub(super) hobbled: Option<usize>,
    /// By side; `None` if no request ended.
    pub(super) sides: [Option<Quantiles>; 2],
}

impl Picture {
    /// Index of the replica that is slowed now.
    pub(super) fn hobbled(&self) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.hobbled)
    }

    /// Faults that users have given the replicas, as text: `3 killed, 5 fails 50 %`; `None` if
    /// there are none.
    pub(super) fn troubles(&self) -> Option<String> {
        let replicas = self.replicas.iter().enumerate();
        let troubles: Vec<_> = replicas
            .filter_map(|(index, replica)| {
                let words = replica.trouble.words()?;
                Some(format!("{index} {words}"))
            })
            .collect();
        (!troubles.is_empty()).then(|| troubles.join(", "))
    }

    /// The names of the policies. If both are the same, a suffix distinguishes them.
    pub(super) fn names(&self) -> [String; 2] {
        names(self.sides.each_ref().map(|side| side.policy))
    }
}

/// Returns names for two sides: their policies, with a suffix each if both are the same.
pub(super) fn names([first, second]: [&str; 2]) -> [String; 2] {
    if first == second {
        [format!("{first} (1)"), format!("{second} (2)")]
    } else {
        [first.to_owned(), second.to_owned()]
    }
}
