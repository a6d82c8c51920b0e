//! The cells of the figure, and each claim on both sides of its bound, with made-up latencies.

use super::*;
use crate::figure::Verdict::{NotReproduced, Reproduced};
use crate::figure::{Verdict, trial};

/// A tail that becomes shorter with each step, as it should.
fn as_it_should_be(cell: &Cell) -> f64 {
    let step = SHARES
        .iter()
        .position(|share| cell.param == format!("reporting={share} %"));
    400.0 * 0.9_f64.powi(i32::try_from(step.expect("it is a step")).expect("few"))
}

/// Returns the plays in which p99 and p99.9 at one step are these multiples of what they are at the
/// step before. Elsewhere all is as it should be.
fn played(fleet: &str, param: &str, [p99, p999]: [f64; 2]) -> Vec<Played> {
    trial::played(&RollOut, |cell| {
        let ms = as_it_should_be(cell);
        let before = ms / 0.9;
        let [p99, p999] = if cell.step == fleet && cell.param == param {
            [before * p99, 2.0 * before * p999]
        } else {
            [ms, 2.0 * ms]
        };
        trial::run([10.0, 20.0, p99, p999])
    })
}

fn verdicts(fleet: &str, param: &str, times: [f64; 2], words: &[&str]) -> Vec<Verdict> {
    trial::verdicts(&RollOut, &played(fleet, param, times), words)
}

#[test]
fn all_claims_hold_where_each_step_is_better() {
    let all = verdicts("none", "", [1.0; 2], &["(ours)"]);
    assert_eq!(all, [Reproduced; 4]);
}

#[test]
fn one_step_that_makes_a_quantile_worse_fails_its_claim_only() {
    for (fleet, share) in [
        ("homogeneous-1.74", 50),
        ("unequal-1.27", 10),
        ("unequal-1.27", 100),
    ] {
        let param = format!("reporting={share} %");
        let of = |times, quantile| verdicts(fleet, &param, times, &[fleet, quantile]);
        for (times, p99, p999) in [
            ([1.01, 1.01], Reproduced, Reproduced),
            ([1.03, 1.01], NotReproduced, Reproduced),
            ([1.01, 1.03], Reproduced, NotReproduced),
        ] {
            assert_eq!(of(times, "makes p99 "), [p99], "{fleet} {share} {times:?}");
            assert_eq!(of(times, "p99.9"), [p999], "{fleet} {share} {times:?}");
        }
        let all = verdicts(fleet, &param, [1.03; 2], &["(ours)"]);
        let failed = all.iter().filter(|it| **it == NotReproduced);
        assert_eq!(failed.count(), 2, "the other fleet's claims still hold");
    }
}

#[test]
fn worst_step_is_named() {
    let played = played("unequal-1.27", "reporting=50 %", [1.5, 1.01]);
    let claims = RollOut.findings(&played).claims;
    let of = |name| {
        let mut all = claims.iter();
        all.find(|it| it.says.contains("unequal-1.27") && it.says.contains(name))
    };
    let p99 = of("makes p99 ").expect("it is judged");
    assert!(p99.found.contains("1.5"), "{}", p99.found);
    assert!(p99.found.contains("from 10 to 50 %"), "{}", p99.found);
    // 0.9 to the power of 4.
    assert!(p99.found.ends_with("0.66 times from 0 to 100 %"));
}

#[test]
fn each_kind_of_replica_reports_in_the_same_share() {
    let mut at = [0.0; 2].map(|_| Vec::new());
    for cell in trial::cells(&RollOut) {
        let fleet = &cell.scenario.fleet;
        assert_eq!(cell.scenario.replicas(), 100, "{}", cell.step);
        assert!(
            fleet
                .iter()
                .all(|group| group.learns_capacity == group.carries_reports)
        );
        for (slow, counts) in at.iter_mut().enumerate() {
            let kind = fleet
                .iter()
                .filter(|group| (group.slowness > 1.0) == (slow == 1));
            let reporting = kind.filter(|group| group.learns_capacity);
            counts.push(reporting.map(|group| group.count).sum::<usize>());
        }
    }
    let [usual, slow] = at;
    assert_eq!(usual, [0, 10, 50, 90, 100, 0, 5, 25, 45, 50]);
    assert_eq!(slow, [0, 0, 0, 0, 0, 0, 5, 25, 45, 50]);
}

#[test]
fn replicas_keep_their_number_at_each_step() {
    let slowness = |cell: &Cell| -> Vec<f64> {
        let groups = cell.scenario.fleet.iter();
        let each = groups.flat_map(|group| core::iter::repeat_n(group.slowness, group.count));
        each.collect()
    };
    for of_fleet in trial::cells(&RollOut).chunks(SHARES.len()) {
        for cell in of_fleet {
            assert_eq!(slowness(cell), slowness(&of_fleet[0]), "{}", cell.param);
        }
    }
}

#[test]
fn fleet_without_all_of_its_steps_makes_no_claims() {
    let mut played = played("none", "", [1.0; 2]);
    played.pop();
    let findings = RollOut.findings(&played);
    assert_eq!(findings.claims.len(), 2);
    assert!(
        findings
            .claims
            .iter()
            .all(|it| it.says.contains("homogeneous"))
    );
    assert_eq!(findings.tables[0].rows.len(), 9, "what was played is shown");
}

#[test]
fn chart_and_table_have_each_step_of_both_fleets() {
    let findings = RollOut.findings(&played("none", "", [1.0; 2]));
    let Plot::Lines(lines) = &findings.charts[0].plot else {
        panic!("they are lines");
    };
    for line in lines {
        let shares: Vec<f64> = line.points.iter().map(|(share, _)| *share).collect();
        assert_eq!(shares, SHARES.map(|share| share as f64), "{}", line.name);
        assert!((line.points[0].1 - 400.0).abs() < 1.0, "p99");
    }
    assert_eq!(lines.len(), FLEETS.len());
    let rows = &findings.tables[0].rows;
    let shares: Vec<_> = rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(shares, [["0", "10", "50", "90", "100"]; 2].concat());
}

#[test]
fn description_has_the_loads_the_shares_and_the_seconds() {
    let about = RollOut.words().about;
    let [first, .., last] = SHARES;
    let mut words: Vec<_> = FLEETS.map(|(name, ..)| name.to_owned()).to_vec();
    words.extend([
        format!("{first}, 10, 50, 90 and {last} %"),
        format!("{SPAN_SECONDS} s after {WARMUP_SECONDS} s of warm-up"),
    ]);
    for words in words {
        assert!(about.contains(&words), "{words}");
    }
}
