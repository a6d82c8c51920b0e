//! The cases, one file each, and their common parts.

mod fail_fast;
mod hedged;
mod restart;
mod stopped;
mod tied;

use super::columns::Column;
use super::options::Options;
use super::plan::{Case, Claim, Span, Stream, Variant};
use super::results::{Results, Row};
use crate::loopback::behaviour::Behaviour;
use core::time::Duration;

/// Makes a case from the options.
pub(super) type MakeCase = fn(&Options) -> Case;

/// The cases by their names on the command line, first those with a short form.
pub(super) const ALL: [(&str, MakeCase); 5] = [
    (fail_fast::NAME, fail_fast::case),
    (stopped::NAME, stopped::case),
    (restart::NAME, restart::case),
    (hedged::NAME, hedged::case),
    (tied::NAME, tied::case),
];

/// Number of cases with a short form. The certain claims of the others are not worth their time.
const SHORT: usize = 2;

/// The cases of the short form, or all.
pub(super) fn known(short: bool) -> &'static [(&'static str, MakeCase)] {
    if short { &ALL[..SHORT] } else { &ALL }
}

/// Replicas of every case.
const REPLICAS: usize = 4;

/// Time without events at the beginning, in which policies learn.
const CALM: Duration = Duration::from_secs(2);

const SECOND: Duration = Duration::from_secs(1);

/// The name of variants without further mechanisms.
const NOTHING: &str = "nothing";

/// Utilization of replicas with the default behaviour, in percent.
fn busy_percent(options: &Options) -> u64 {
    let behaviour = Behaviour::default();
    let replicas = u64::try_from(REPLICAS).unwrap_or(1);
    // Milliseconds per second, in percent.
    options.rate * behaviour.service_ms / (replicas * behaviour.room * 10)
}

/// A variant with the default mechanisms only.
fn plain(policy: &'static str, means: &'static str, serve: &str) -> Variant {
    Variant {
        policy,
        means,
        serve: serve.to_owned(),
        agent: String::new(),
    }
}

/// The stream whose results count: from the start, measured in a span of the round.
fn main_stream(rate: u64, measured: Span) -> Stream {
    Stream {
        name: "main",
        at: Duration::ZERO,
        path: "/",
        rate,
        warmup: measured.from,
        measured: measured.to.saturating_sub(measured.from),
        arguments: &[],
    }
}

/// Makes a claim about each of some rows, with its value.
fn of_each<'r>(
    says: &str,
    rows: impl Iterator<Item = &'r Row>,
    column: Column,
    holds: impl Fn(&Row, f64) -> bool,
) -> Claim {
    let mut all = true;
    let mut found = column.title().to_owned();
    let mut round = None;
    for row in rows {
        let value = row.median(column);
        all &= holds(row, value);
        let is_same = round.replace(&row.round) == Some(&row.round);
        found = if is_same {
            found + ", "
        } else {
            found + "; " + &row.round + ": "
        };
        found = found + row.variant.policy + " " + &column.written(value);
    }
    Claim {
        says: says.to_owned(),
        holds: all && round.is_some(),
        found,
    }
}

/// Ratio of a column to that of the row with other mechanisms; NaN if there is none.
fn times(results: &Results, row: &Row, means: &str, column: Column) -> f64 {
    let other = results.beside(row, means);
    other.map_or(f64::NAN, |other| row.median(column) / other.median(column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;
    use crate::troubles::measure::Found;
    use crate::troubles::plan::Step;
    use std::collections::BTreeSet;

    #[test]
    fn steps_fit_their_duration_and_variants_differ() {
        for arguments in [
            &["all"][..],
            &["all", "--short"],
            &["all", "--seconds", "600"],
        ] {
            let options: Options = parse(arguments).unwrap();
            for case in options.cases().unwrap() {
                let case = case(&options);
                for round in &case.rounds {
                    let what = format!("{arguments:?}, {}, {}", case.name, round.name);
                    let lasts = round.lasts();
                    assert!(round.steps.iter().all(|(at, _)| *at <= lasts), "{what}");
                    assert!(round.during.from < round.during.to, "{what}");
                    assert!(round.during.to <= lasts, "{what}");
                    // The generator takes whole seconds.
                    let whole = |time: Duration| time.subsec_nanos() == 0 && !time.is_zero();
                    for stream in &round.streams {
                        assert!(whole(stream.warmup) && whole(stream.measured), "{what}");
                    }
                    let names =
                        (round.variants.iter()).map(|variant| (variant.policy, variant.means));
                    let different: BTreeSet<_> = names.collect();
                    assert_eq!(different.len(), round.variants.len(), "{what}");
                }
            }
        }
    }

    #[test]
    fn claim_lists_its_rows_and_fails_without_any() {
        let options: Options = parse(&["fail-fast"]).unwrap();
        let case = options.cases().unwrap()[0](&options);
        let mut results = Results::default();
        for round in &case.rounds {
            let found = [1.0, 2.0, 3.0, 4.0].map(|value| Found::with(Column::Errors, value));
            results.add(round, 1, found.into());
        }
        let claim = |most: f64| {
            let rows = results.with("error aversion");
            of_each("few fail", rows, Column::Errors, |_, errors| errors <= most)
        };
        assert!(claim(4.0).holds && !claim(3.9).holds);
        assert_eq!(
            claim(4.0).found,
            "errors %; It fails 50 % of its requests: round_robin 2.00, least_loaded 4.00; \
             It fails 100 % of its requests: round_robin 2.00, least_loaded 4.00"
        );
        let of_none = of_each("none", results.with("all"), Column::Errors, |_, _| true);
        assert!(!of_none.holds);
        let with = results.with("error aversion").next().unwrap();
        let times = times(&results, with, NOTHING, Column::Errors);
        assert!((times - 2.0).abs() < 1e-9);
    }

    #[test]
    fn stopped_processes_continue_and_killed_ones_are_started() {
        let options: Options = parse(&["all"]).unwrap();
        for case in options.cases().unwrap() {
            for round in case(&options).rounds {
                let steps: Vec<_> = round.steps.iter().map(|(_, step)| step).collect();
                let count = |is: fn(&Step) -> bool| steps.iter().filter(|step| is(step)).count();
                let begin = |step: &Step| {
                    let name = format!("{step:?}");
                    name == "Kill" || name.contains("USR1") || name.contains("STOP")
                };
                assert_eq!(count(begin) * 2, steps.len(), "{}: {steps:?}", round.name);
            }
        }
    }
}
