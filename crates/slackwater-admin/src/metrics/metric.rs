//! The definition of a metric: name, type, meaning and labels.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only rises; its name ends in `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Cumulative counts of latencies by upper bound.
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

/// A label of a metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) name: &'static str,
    /// The meaning of its values, for people.
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
pub(crate) struct Metric {
    /// The name, without a counter's `_total`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The meaning, in a sentence.
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [Label],
}

impl Metric {
    /// The unit, which the name ends in.
    pub(crate) fn unit(&self) -> Option<&'static str> {
        const UNITS: [&str; 4] = ["seconds", "bytes", "requests", "ratio"];
        let last = self.name.rsplit('_').next()?;
        UNITS.into_iter().find(|unit| *unit == last)
    }

    /// The name in queries.
    pub(crate) fn full_name(&self) -> String {
        let suffix = if self.kind == Kind::Counter {
            "_total"
        } else {
            ""
        };
        format!("{}{suffix}", self.name)
    }
}
