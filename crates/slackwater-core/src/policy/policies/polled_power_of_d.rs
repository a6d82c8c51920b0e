//! Power of d choices on polled RIF: draws a few replicas at random and picks the one that last
//! reported the lowest RIF.
//!
//! This is YARP-Po2C of the Prequal paper, which polls every 500 ms `[Prequal §5.2]`. It uses the
//! true load, but an old one, where [`PowerOfD`](crate::policy::PowerOfD) counts its own queries. A
//! report counts as received: this client's queries since then are not added. The paper leaves one
//! point open: a replica without a report (new, unprobed, unreachable or draining) ranks as the
//! mean of those with one, so that it is neither flooded nor starved. While no replica has one,
//! this client's own queries in flight decide.

use crate::draw::Draw;
use crate::policy::candidates::Candidates;
use crate::policy::comparison::{Comparison, Equals, Factor, Step, Values};
use crate::policy::entry::{PolicyEntry, Reports};
use crate::policy::outcome::Outcome;
use crate::policy::policies::power_of_d;
use crate::policy::polled::{ChoosePolled, Polled};
use crate::policy::query::PickReason;
use crate::policy::settings::{
    ConfigError, Settings, Valid, require_choices, require_period, section,
};
use crate::policy::unprobed::{Choose, QueryEnd};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::LoadReport;
use crate::time::Instant;
use alloc::boxed::Box;
use core::time::Duration;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["polled_power_of_d"],
    reports: Reports::Polled,
    comparisons: &[&COMPARISON, &power_of_d::COMPARISON],
    ..PolicyEntry::new(
        "polled_power_of_d",
        "lowest polled RIF, of d drawn",
        "Polls all replicas for their requests in flight, draws a few and picks the fewest.",
        |s| Box::new(PolledPowerOfD::with(s.polled_power_of_d.clone())),
    )
};

/// How the drawn replicas are compared. They are numbered in the order of the draws. The mean is
/// the sum of all reports over their number, and stands for a missing report.
const COMPARISON: Comparison = Comparison {
    name: "lowest_reported_of_drawn",
    formula: "of those drawn, the fewest requests in flight by the last report (without one: the \
              sum of all reports / reports); of equals the first drawn",
    shared: &[
        Factor::requests("reported_sum", "sum of all reports", 1),
        Factor::count("reports", "reports"),
    ],
    factors: &[
        Factor::requests("reported", "last report", 1),
        Factor::requests("compared", "requests in flight × reports", 1),
    ],
    order: &[Step::lowest("compared")],
    equals: Equals::First,
};

/// Picks by the last reported RIF, among a few replicas drawn at random.
pub type PolledPowerOfD = Polled<LowestReportedOfDrawn>;

/// Valid settings of [`PolledPowerOfD`].
pub type PolledPowerOfDConfig = Valid<PolledPowerOfDSettings>;

/// Settings of [`PolledPowerOfD`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolledPowerOfDSettings {
    /// Polling interval of each replica: 1 ms to 1 hour, default 500 ms, the paper's. Between two
    /// answers the same replicas look empty to every client.
    pub interval: Duration,
    /// Distinct replicas drawn for each query: 2 to 16, default 2.
    pub choices: u8,
}

impl Default for PolledPowerOfDSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            choices: 2,
        }
    }
}

impl Settings for PolledPowerOfDSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require_period(self.interval, "interval")?;
        require_choices(self.choices)
    }
}

section! { PolledPowerOfDSettings in "polled_power_of_d" {
    /// How often each worker polls each replica for its requests in flight.
    interval in Duration: interval;
    /// Distinct replicas drawn for each request.
    choices in U8: choices;
} }

/// The rule of [`PolledPowerOfD`].
#[derive(Clone, Debug)]
pub struct LowestReportedOfDrawn {
    interval: Duration,
    choices: u8,
    reported: ReplicaMap<u32>,
    /// Number of replicas with a report, and the sum of their RIFs.
    reports: u64,
    sum: u64,
}

impl From<PolledPowerOfDConfig> for LowestReportedOfDrawn {
    fn from(config: PolledPowerOfDConfig) -> Self {
        Self {
            interval: config.interval,
            choices: config.choices,
            reported: ReplicaMap::default(),
            reports: 0,
            sum: 0,
        }
    }
}

impl Choose for LowestReportedOfDrawn {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::LowestRif;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        match self.reports {
            0 => from.compare(&power_of_d::COMPARISON, Values::NONE),
            reports => from.compare(&COMPARISON, Values::of([self.sum, reports])),
        }
        from.best_of_drawn(self.choices, draw, |replica| {
            let reported = self.reported.find(replica).copied();
            let load = match self.reports {
                0 => u64::from(from.in_flight(replica)),
                // All values are multiples of 1 / reports, so that the mean needs no rounding. They
                // stay below 2^32 · 2^20.
                reports => reported.map_or(self.sum, |rif| u64::from(rif) * reports),
            };
            from.consider(replica, || {
                let values = match self.reports {
                    0 => Values::of([load]),
                    _ => Values::of_known([reported.map(u64::from), Some(load)]),
                };
                (load, values)
            });
            load
        })
    }

    fn reason(&self) -> PickReason {
        match self.reports {
            0 => PickReason::LeastLoaded,
            _ => Self::REASON,
        }
    }

    fn add_replica(&mut self, _now: Instant, replica: ReplicaId) {
        self.reported.reserve(replica);
    }

    fn remove_replica(&mut self, replica: ReplicaId) {
        self.forget(replica);
    }

    fn handle_end(&mut self, _now: Instant, end: &QueryEnd) {
        if end.outcome == Outcome::NoConnection {
            // Its earlier report no longer predicts what a query meets there.
            self.forget(end.replica);
        }
    }
}

impl ChoosePolled for LowestReportedOfDrawn {
    fn interval(&self) -> Duration {
        self.interval
    }

    fn handle_report(&mut self, _now: Instant, replica: ReplicaId, report: &LoadReport) {
        self.forget(replica);
        if report.draining {
            // A replica that runs empty does not show the load of the others.
            return;
        }
        let rif = report.rif.count();
        self.reported.insert(replica, rif);
        self.reports += 1;
        self.sum += u64::from(rif);
    }

    fn handle_silence(&mut self, replica: ReplicaId) {
        self.forget(replica);
    }
}

impl LowestReportedOfDrawn {
    fn forget(&mut self, replica: ReplicaId) {
        if let Some(rif) = self.reported.remove(replica) {
            self.reports -= 1;
            self.sum -= u64::from(rif);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::settings::check_ranges;
    use crate::policy::trial::Trial;
    use crate::policy::{Event, Policy};
    use crate::report::Rif;

    /// A fleet whose replicas report these RIFs, or nothing.
    fn trial(rifs: &[Option<u32>]) -> Trial<PolledPowerOfD> {
        let policy = PolledPowerOfD::with(PolledPowerOfDConfig::default());
        let mut trial = Trial::new(policy, rifs.len());
        report(&mut trial, rifs);
        trial
    }

    fn report(trial: &mut Trial<PolledPowerOfD>, rifs: &[Option<u32>]) {
        let (now, mut draw) = (trial.now, trial.draw.clone());
        while let Some(poll) = trial.policy.poll_probe(now, &mut draw) {
            if let Some(rif) = rifs[trial.place(poll.replica)] {
                let report = LoadReport::new(Rif::new(rif), None);
                trial
                    .policy
                    .handle(now, Event::Report(poll.id, &report), &mut draw);
            }
        }
    }

    /// The replica that a query picks from two drawn in this order.
    fn of_two(trial: &mut Trial<PolledPowerOfD>, first: usize, second: usize) -> usize {
        let choice = trial.policy.choosing.fleet.choice();
        let index = |place: usize| {
            let index = choice
                .iter()
                .position(|&other| other == trial.replicas[place]);
            u32::try_from(index.expect("available")).expect("few")
        };
        let (first, second) = (index(first), index(second));
        let replicas = u32::try_from(choice.len()).expect("few");
        let numbers = [first, second - u32::from(second > first)];
        let ticket = trial.pick_at(numbers, [replicas, replicas - 1]);
        trial.place(ticket.replica())
    }

    #[test]
    fn lower_report_wins_and_first_drawn_breaks_ties() {
        let mut trial = trial(&[Some(5), Some(3), Some(3)]);
        for _ in 0..10 {
            assert_eq!(of_two(&mut trial, 0, 1), 1);
            assert_eq!(of_two(&mut trial, 1, 2), 1);
            assert_eq!(of_two(&mut trial, 2, 1), 2);
        }
        trial.after(Duration::from_millis(500));
        report(&mut trial, &[Some(5), Some(30), Some(20)]);
        assert_eq!(of_two(&mut trial, 1, 0), 0);
        assert_eq!(of_two(&mut trial, 1, 2), 2);
    }

    #[test]
    fn replica_without_report_ranks_as_the_mean() {
        // The mean is 10/3, above 3 and below 4.
        let mut trial = trial(&[None, Some(3), Some(4), Some(3)]);
        assert_eq!(of_two(&mut trial, 0, 1), 1);
        assert_eq!(of_two(&mut trial, 2, 0), 0);
    }

    #[test]
    fn without_reports_own_rif_decides() {
        let mut trial = trial(&[None, None]);
        assert_eq!(of_two(&mut trial, 1, 0), 1);
        assert_eq!(of_two(&mut trial, 1, 0), 0);
        assert_eq!(of_two(&mut trial, 1, 0), 1);
    }

    #[test]
    fn unreachable_unprobed_and_returning_replicas_have_no_report() {
        let mut trial = trial(&[Some(0), Some(4), Some(8)]);
        assert_eq!(of_two(&mut trial, 1, 0), 0);
        trial.serve(0, Duration::ZERO, Outcome::NoConnection);
        assert_eq!(of_two(&mut trial, 0, 1), 1, "6 against 4");
        trial.replace(1);
        assert_eq!(of_two(&mut trial, 1, 2), 1, "8, the only one, against 8");
        assert_eq!(of_two(&mut trial, 2, 1), 2);
        for _ in 0..20 {
            trial.after(Duration::from_millis(250));
            report(&mut trial, &[Some(1), None, None]);
        }
        let silent = |place: usize| trial.policy.snapshot(trial.now).replicas[place].unprobed;
        assert!(!silent(0) && silent(1) && silent(2));
        assert_eq!(
            of_two(&mut trial, 1, 0),
            1,
            "both as the only one that answers"
        );
        let counts = trial.counts(100);
        assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
        assert_eq!(counts[2], 0, "it has answered before, and is lost");
    }

    #[test]
    fn departed_replica_is_removed_from_the_mean() {
        let mut trial = trial(&[Some(90), Some(5), Some(3), None]);
        let gone = trial.replicas[0];
        trial.handle(Event::Removed(gone));
        // The mean is 4 now, and was 98/3.
        assert_eq!(of_two(&mut trial, 1, 3), 3);
        assert_eq!(of_two(&mut trial, 3, 2), 2);
        for place in 1..3 {
            let gone = trial.replicas[place];
            trial.handle(Event::Removed(gone));
        }
        trial.join();
        // No replica has reported: the client's own queries decide, and one is at the former.
        assert_eq!(of_two(&mut trial, 3, 4), 4);
        assert_eq!(of_two(&mut trial, 3, 4), 3);
    }

    #[test]
    fn draining_replica_is_not_chosen_nor_in_the_mean() {
        let mut trial = trial(&[Some(9), Some(5), None]);
        trial.after(Duration::from_millis(500));
        let (now, mut draw) = (trial.now, trial.draw.clone());
        while let Some(poll) = trial.policy.poll_probe(now, &mut draw) {
            let mut report = LoadReport::new(Rif::ZERO, None);
            report.draining = true;
            if trial.place(poll.replica) == 0 {
                trial
                    .policy
                    .handle(now, Event::Report(poll.id, &report), &mut draw);
            }
        }
        assert_eq!(
            of_two(&mut trial, 1, 2),
            1,
            "5 against the mean, which is 5 now"
        );
        assert_eq!(of_two(&mut trial, 2, 1), 2);
        let counts = trial.counts(400);
        assert!(
            counts[0] == 0 && counts[1] > 100 && counts[2] > 100,
            "{counts:?}"
        );
    }

    #[test]
    fn avoided_and_unavailable_replicas_are_skipped() {
        trial(&[Some(3); 4]).check_standing(PickReason::LowestRif);
    }

    #[test]
    fn settings_out_of_range_are_rejected_by_name() {
        check_ranges::<PolledPowerOfDSettings>(&[
            ("interval", |s| s.interval = Duration::ZERO),
            ("interval", |s| s.interval = Duration::from_hours(2)),
            ("choices", |s| s.choices = 1),
        ]);
    }
}
