//! What a metric is: its name, its type, what it means, and by what its series are told apart.

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
pub(crate) struct Metric {
    /// All of it, but for the `_total` of a counter.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What it means, in a sentence.
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [Label],
}

impl Metric {
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
