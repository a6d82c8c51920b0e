//! Results of all runs of a case.

use super::columns::Column;
use super::measure::Found;
use super::plan::{Round, Variant};
use crate::spread::Spread;

/// The results of one round and variant in all runs.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) round: String,
    pub(super) variant: Variant,
    /// Results by run.
    pub(super) found: Vec<(u64, Found)>,
}

/// All results of a case.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
}

impl Results {
    /// Adds the results of a round in one run, one for each variant.
    pub(super) fn add(&mut self, round: &Round, run: u64, found: Vec<Found>) {
        for (variant, found) in round.variants.iter().zip(found) {
            let is_same = |row: &&mut Row| {
                (&row.round, row.variant.policy, row.variant.means)
                    == (&round.name, variant.policy, variant.means)
            };
            match self.rows.iter_mut().find(is_same) {
                Some(row) => row.found.push((run, found)),
                None => self.rows.push(Row {
                    round: round.name.clone(),
                    variant: variant.clone(),
                    found: vec![(run, found)],
                }),
            }
        }
    }

    /// The rows of variants with these mechanisms.
    pub(super) fn with(&self, means: &str) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(move |row| row.variant.means == means)
    }

    /// The row of the same round and policy with other mechanisms.
    pub(super) fn beside(&self, row: &Row, means: &str) -> Option<&Row> {
        self.with(means)
            .find(|other| (&other.round, other.variant.policy) == (&row.round, row.variant.policy))
    }
}

impl Row {
    /// A column over all runs; `None` if no run has it.
    pub(super) fn spread(&self, column: Column) -> Option<Spread> {
        Spread::of(self.found.iter().filter_map(|(_, found)| found.of(column)))
    }

    /// The median of all runs; NaN if no run has it, so that no claim about it holds.
    pub(super) fn median(&self, column: Column) -> f64 {
        self.spread(column).map_or(f64::NAN, |spread| spread.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(means: &'static str) -> Variant {
        Variant {
            policy: "prequal",
            means,
            serve: String::new(),
            agent: String::new(),
        }
    }

    fn row(means: &'static str, values: &[f64]) -> Row {
        let found = values.iter().map(|value| Found::with(Column::P99, *value));
        Row {
            round: "a round".to_owned(),
            variant: variant(means),
            found: (1..).zip(found).collect(),
        }
    }

    #[test]
    fn runs_are_summarized_by_median_and_quartiles() {
        let row = row("nothing", &[3.0, 9.0, 1.0]);
        assert_eq!(row.spread(Column::P99), Spread::of([3.0, 9.0, 1.0]));
        assert_eq!(row.spread(Column::P50), None);
        assert!(row.median(Column::P50).is_nan());
    }

    #[test]
    fn row_is_compared_within_its_round_and_policy() {
        let mut results = Results {
            rows: vec![row("nothing", &[1.0]), row("something", &[2.0])],
        };
        let mut other = row("nothing", &[3.0]);
        other.round = "another round".to_owned();
        results.rows.insert(0, other);
        let with = results.with("something").next().unwrap();
        let beside = results.beside(with, "nothing").unwrap();
        assert_eq!(
            beside.spread(Column::P99),
            row("nothing", &[1.0]).spread(Column::P99)
        );
        assert!(results.beside(with, "all").is_none());
    }
}
