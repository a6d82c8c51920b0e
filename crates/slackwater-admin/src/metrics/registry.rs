//! What a metric is, and the list of all of them.

use super::scrape::Scrape;
use super::text::Samples;
use super::{own, policy, process, replica, service, standing, system, workers};

/// Of which type a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only rises; its name ends in `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts of latencies, by the bounds that they did not exceed.
    Histogram,
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// By what the series of a metric are told apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) name: &'static str,
    /// What its values mean, for people.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the page of metrics is made by a test")
    )]
    pub(crate) meaning: &'static str,
}

/// A service, by its name.
pub(super) const SERVICE: Label = Label {
    name: "service",
    meaning: "what the configuration calls it; `default` where it has no name; `(agent)` of an agent, whose replica is its \
              server: what it counts there, the proxies that sent it have counted as well",
};

/// A replica.
pub(super) const REPLICA: Label = Label {
    name: "replica",
    meaning: "what the configuration calls it; [`(other)`](#many-replicas) for all that have no series of their own",
};

/// A worker.
pub(super) const WORKER: Label = Label {
    name: "worker",
    meaning: "its number, from 0",
};

pub(super) const OF_SERVICE: &[Label] = &[SERVICE];
pub(super) const OF_REPLICA: &[Label] = &[SERVICE, REPLICA];
pub(super) const OF_WORKER: &[Label] = &[SERVICE, WORKER];

/// One metric.
#[derive(Debug)]
pub(crate) struct Family {
    /// All of it, but for the `_total` of a counter.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What it means, in a sentence.
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [Label],
    /// Where its samples come from.
    pub(super) write: fn(&Scrape<'_>, &mut Samples<'_>),
}

impl Family {
    /// Something that only rises. `name` is without `_total`.
    pub(super) const fn counter(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Counter, name, help, labels, write)
    }

    /// Something that rises and falls.
    pub(super) const fn gauge(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Gauge, name, help, labels, write)
    }

    /// Latencies.
    pub(super) const fn histogram(
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self::of(Kind::Histogram, name, help, labels, write)
    }

    const fn of(
        kind: Kind,
        name: &'static str,
        help: &'static str,
        labels: &'static [Label],
        write: fn(&Scrape<'_>, &mut Samples<'_>),
    ) -> Self {
        Self {
            name,
            kind,
            help,
            labels,
            write,
        }
    }

    /// Its unit, which its name ends in.
    pub(crate) fn unit(&self) -> Option<&'static str> {
        const UNITS: [&str; 4] = ["seconds", "bytes", "requests", "ratio"];
        let last = self.name.rsplit('_').next()?;
        UNITS.into_iter().find(|unit| *unit == last)
    }

    /// What queries call it.
    pub(crate) fn full_name(&self) -> String {
        let suffix = if self.kind == Kind::Counter {
            "_total"
        } else {
            ""
        };
        format!("{}{suffix}", self.name)
    }
}

/// All metrics by what they are about, in the order in which they are written.
pub(crate) const SUBJECTS: [(&str, &[Family]); 8] = [
    ("Process", process::FAMILIES),
    ("Services", service::FAMILIES),
    ("Replicas", replica::FAMILIES),
    ("Where replicas stand", standing::FAMILIES),
    ("Picks, probes and reports", policy::FAMILIES),
    ("Workers", workers::FAMILIES),
    ("Before a replica (`agent`)", own::FAMILIES),
    ("The system's view", system::FAMILIES),
];

/// All of them.
pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    SUBJECTS.into_iter().flat_map(|(_, families)| families)
}
