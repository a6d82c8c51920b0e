//! The part of a ticket that health uses.

use crate::policy::outcome::Outcome;

/// What the health of a query's replica needs to know about the query.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// The stay of the replica in which the query was sent.
    stay: u32,
    /// The latency and outcome of the first head.
    head: Option<(u64, Outcome)>,
    /// The number of failures in a row before that.
    run: u32,
    /// The number of the trial, if it is one.
    trial: Option<u32>,
}

impl Mark {
    pub(crate) const NONE: Self = Self::new(0, None);

    pub(crate) const fn new(stay: u32, trial: Option<u32>) -> Self {
        Self {
            stay,
            head: None,
            run: 0,
            trial,
        }
    }

    pub(crate) const fn stay(self) -> u32 {
        self.stay
    }

    /// Notes a head. Returns `true` if it is the first.
    pub(crate) const fn head(&mut self, latency_ns: u64, outcome: Outcome) -> bool {
        let is_first = self.head.is_none();
        if is_first {
            self.head = Some((latency_ns, outcome));
        }
        is_first
    }

    pub(crate) fn latency_ns(self) -> Option<u64> {
        self.head.map(|(latency_ns, _)| latency_ns)
    }

    pub(crate) const fn set_run(&mut self, run: u32) {
        self.run = run;
    }

    pub(crate) const fn run(self) -> u32 {
        self.run
    }

    pub(crate) const fn trial(self) -> Option<u32> {
        self.trial
    }

    /// Whether its head was a good one.
    pub(crate) fn began_well(self) -> bool {
        matches!(self.head, Some((_, Outcome::Success)))
    }

    /// The outcome of the query: that of its head, unless it broke off after a good one. A query
    /// given up after a good head is a success: the replica did its part.
    pub(crate) fn outcome(self, outcome: Outcome) -> Outcome {
        match self.head.map(|(_, head)| head) {
            Some(Outcome::Success) if outcome == Outcome::Dropped => Outcome::Success,
            Some(Outcome::Success) | None => outcome,
            Some(head) => head,
        }
    }
}
