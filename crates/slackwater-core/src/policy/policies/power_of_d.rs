//! Power of d choices on the client's own queries in flight: draws a few replicas at random and
//! picks the least loaded of them.
//!
//! This is LL-Po2C of the Prequal paper `[Prequal §5.2]`. nginx has it as `random two least_conn`,
//! Envoy and gRPC as `LEAST_REQUEST` with a choice count of 2 (those two may draw the same replica
//! twice). Two choices instead of one remove the long tail of random picks. Unlike
//! [`LeastLoaded`](crate::policy::LeastLoaded), a pick takes the same time in any fleet, and many
//! clients that all see the same empty replica do not all pick it.

use crate::draw::Draw;
use crate::policy::candidates::Candidates;
use crate::policy::comparison::{Comparison, Equals, OWN_IN_FLIGHT, Step, Values};
use crate::policy::entry::PolicyEntry;
use crate::policy::query::PickReason;
use crate::policy::settings::{ConfigError, Settings, Valid, require_choices, section};
use crate::policy::unprobed::{Choose, Unprobed};
use crate::replica::ReplicaId;
use alloc::boxed::Box;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["power_of_d"],
    comparisons: &[&COMPARISON],
    ..PolicyEntry::new(
        "power_of_d",
        "fewest of its own in flight, of d drawn",
        "Draws a few replicas and picks the one with the fewest requests in flight from this worker.",
        |s| Box::new(PowerOfD::with(s.power_of_d.clone())),
    )
};

/// How the drawn replicas are compared. They are numbered in the order of the draws.
pub(super) const COMPARISON: Comparison = Comparison {
    name: "fewest_in_flight_of_drawn",
    formula: "of those drawn, the fewest requests in flight from this worker; of equals the first \
              drawn",
    shared: &[],
    factors: &[OWN_IN_FLIGHT],
    order: &[Step::lowest("in_flight")],
    equals: Equals::First,
};

/// Picks by the client's own queries in flight, among a few replicas drawn at random.
pub type PowerOfD = Unprobed<FewestOfDrawn>;

/// Valid settings of [`PowerOfD`].
pub type PowerOfDConfig = Valid<PowerOfDSettings>;

/// Settings of [`PowerOfD`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerOfDSettings {
    /// Distinct replicas drawn for each query (d): 2 to 16, default 2. A smaller fleet is compared
    /// as a whole, in random order.
    pub choices: u8,
}

impl Default for PowerOfDSettings {
    fn default() -> Self {
        Self { choices: 2 }
    }
}

impl Settings for PowerOfDSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require_choices(self.choices)
    }
}

section! { PowerOfDSettings in "power_of_d" {
    /// Distinct replicas drawn for each request (d).
    choices in U8: choices;
} }

/// The rule of [`PowerOfD`].
#[derive(Clone, Debug)]
pub struct FewestOfDrawn {
    choices: u8,
}

impl From<PowerOfDConfig> for FewestOfDrawn {
    fn from(config: PowerOfDConfig) -> Self {
        Self {
            choices: config.choices,
        }
    }
}

impl Choose for FewestOfDrawn {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::LeastLoaded;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        from.compare(&COMPARISON, Values::NONE);
        from.best_of_drawn(self.choices, draw, |replica| {
            let in_flight = u64::from(from.in_flight(replica));
            from.consider(replica, || (in_flight, Values::of([in_flight])));
            in_flight
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::settings::check_ranges;
    use crate::policy::trial::Trial;
    use crate::policy::{Outcome, Query};
    use alloc::vec::Vec;

    fn trial(choices: u8, replicas: usize) -> Trial<PowerOfD> {
        let config = PowerOfDSettings { choices }.validate().expect("in range");
        Trial::new(PowerOfD::with(config), replicas)
    }

    #[test]
    fn lower_rif_of_two_wins_and_first_drawn_breaks_ties() {
        let mut trial = trial(2, 3);
        // Each pair of numbers is the place of the first drawn out of 3, and of the second out of
        // the 2 left.
        let places = [
            ([0, 0], 0),
            ([0, 0], 1),
            ([0, 0], 0),
            ([2, 1], 2),
            ([0, 1], 2),
            ([2, 0], 2),
        ];
        // In flight before each: 0 0 0 | 1 0 0 | 1 1 0 | 2 1 0 | 2 1 1 | 2 1 2
        let mut out = Vec::new();
        for (step, (drawn, expected)) in places.into_iter().enumerate() {
            let ticket = trial.pick_at(drawn, [3, 2]);
            assert_eq!(trial.place(ticket.replica()), expected, "step {step}");
            out.push(ticket);
        }
        // A query that failed is over, too: replica 2 is empty again, and beats 1.
        for ticket in out {
            if trial.place(ticket.replica()) == 2 {
                trial.end(ticket, Outcome::Failed);
            }
        }
        let ticket = trial.pick_at([1, 1], [3, 2]);
        assert_eq!(trial.place(ticket.replica()), 2);
    }

    #[test]
    fn with_as_many_choices_as_replicas_each_gets_one_query() {
        let mut trial = trial(16, 5);
        for round in 0..4 {
            let mut chosen: Vec<_> = (0..5).map(|_| trial.pick().replica()).collect();
            chosen.sort_unstable();
            assert_eq!(chosen, trial.replicas, "round {round}: one each");
        }
    }

    #[test]
    fn avoided_and_unavailable_replicas_are_drawn_last() {
        let mut trial = trial(2, 4);
        trial.check_standing(PickReason::LeastLoaded);
        let avoid = trial.replicas.clone();
        assert!(trial.try_pick(Query::retry(&avoid)).is_none());
    }

    #[test]
    fn settings_out_of_range_are_rejected_by_name() {
        check_ranges::<PowerOfDSettings>(&[
            ("choices", |s| s.choices = 1),
            ("choices", |s| s.choices = 17),
        ]);
    }
}
