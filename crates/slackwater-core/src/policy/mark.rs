//! What a ticket carries of its query for health.

use crate::policy::outcome::Outcome;

/// What the health of a query's replica has to know of it, on its ticket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// The stay of the replica in which it was sent.
    stay: u32,
    /// The first head, and what it took.
    head: Option<(u64, Outcome)>,
    /// The failures in a row before that.
    run: u32,
    /// Which trial of its replica it is.
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

    /// A head is here; `true` if it is the first.
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

    /// Its head said that it is a good one.
    pub(crate) fn began_well(self) -> bool {
        matches!(self.head, Some((_, Outcome::Success)))
    }

    /// How the query ended: what its head said, unless it broke off after a good one. One given up
    /// after a good head is a success: the replica did what it was to do.
    pub(crate) fn outcome(self, outcome: Outcome) -> Outcome {
        match self.head.map(|(_, head)| head) {
            Some(Outcome::Success) if outcome == Outcome::Dropped => Outcome::Success,
            Some(Outcome::Success) | None => outcome,
            Some(head) => head,
        }
    }
}
