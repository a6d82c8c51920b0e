//! Fig. 8: the probing rate is lowered from four probes a query to half a probe, at one and a half
//! times the allocation.

use super::cells::{Plays, latency_ms, paper_settings, rate};
use super::charts::{axis, latency_lines, log_axis, rif_lines};
use super::judge::Bounds;
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Words};
use crate::presets::{at_load, testbed};
use crate::{Measured, PolicyChoice};

/// The probing rate experiment of §5.3.
#[derive(Debug)]
pub(super) struct Fig8;

const PREQUAL: &str = "prequal";
const LOAD: f64 = 1.5;
const REMOVE_RATE: f64 = 0.25;

/// Steps of 1/√2 from 4 down. Their names are rounded as in the paper.
const STEPS: [&str; 7] = ["4", "2.83", "2", "1.41", "1", "0.71", "0.5"];
/// The step that others are compared with.
const BASE: &str = "2";
/// The paper finds in all its experiments that less than one probe a query is too little.
const BEGINS_TO_HURT: &str = "1";

impl Figure for Fig8 {
    fn words(&self) -> Words {
        Words {
            name: "fig8",
            title: "Probing rate, from four probes a query to a half",
            about: "Prequal on the testbed of Fig. 6 at 1.5 times the allocation, 0.25 reports removed for each query; the reuse limit \
         compensates by equation (1), uncapped [Prequal §5.3 \"Probing Rate\", Fig. 8]. The paper gives no numbers but the rates: it says \
         that Prequal hardly minds until there is less than one probe a query, and that tail RIF and latency jump below that.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let scenario = effort.spend_on(at_load(LOAD, testbed()), 30, 60);
        steps()
            .filter_map(|(step, probe_rate)| {
                let settings = paper_settings(|prequal| {
                    prequal.probe_rate = rate(probe_rate);
                    prequal.remove_rate = rate(REMOVE_RATE);
                })?;
                let policy = PolicyChoice::with_settings(PREQUAL, settings)?;
                let cell = Cell::of(step, LOAD, policy, &scenario);
                Some(cell.with_param(format!("probe_rate={step}")))
            })
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        Findings {
            claims: claims(&plays),
            charts: charts(&plays),
            tables: Vec::new(),
        }
    }
}

/// Returns each step's name and rate.
fn steps() -> impl Iterator<Item = (&'static str, f64)> {
    STEPS
        .into_iter()
        .zip(0_u32..)
        .map(|(step, halvings)| (step, 4.0 * 0.5_f64.powf(f64::from(halvings) / 2.0)))
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let times = |step, base, of: &dyn Fn(&Measured) -> f64| {
        let (run, base) = plays
            .measured(step, PREQUAL)
            .zip(plays.measured(base, PREQUAL))?;
        Some(of(run) / of(base))
    };
    let p99 = |run: &Measured| latency_ms(run, 0.99);
    let rif_p99 = |run: &Measured| run.rif_quantile(0.99) as f64;
    let jumps = [
        times("0.5", BASE, &p99).map(|found| {
            let says = "at half a probe a query p99 is at least twice that at 2 probes";
            Bounds::at_least(2.0, " times").judge(says, found)
        }),
        times("0.71", BEGINS_TO_HURT, &rif_p99).map(|found| {
            let says =
                "below one probe a query the tail of RIF jumps: p99 of RIF at 0.71 against 1";
            Bounds::at_least(1.15, " times").judge(says, found)
        }),
        times("0.5", BEGINS_TO_HURT, &rif_p99).map(|found| {
            let says = "below one probe a query the tail of RIF jumps: p99 of RIF at 0.5 against 1";
            Bounds::at_least(1.3, " times").judge(says, found)
        }),
    ];
    let flat = flat(plays, p99);
    flat.into_iter()
        .chain(jumps.into_iter().flatten())
        .collect()
}

/// Checks how little p99 varies where there are enough probes: half of its range, as a share of the
/// middle.
fn flat(plays: &Plays<'_>, p99: impl Fn(&Measured) -> f64) -> Option<Claim> {
    let enough: Option<Vec<f64>> = STEPS
        .iter()
        .take_while(|step| **step != BEGINS_TO_HURT)
        .map(|step| plays.measured(step, PREQUAL).map(&p99))
        .collect();
    let enough = enough?;
    let low = enough.iter().copied().fold(f64::INFINITY, f64::min);
    let high = enough.iter().copied().fold(0.0, f64::max);
    let says = "from 4 to 1.41 probes a query p99 is flat: its variation around the middle";
    Some(Bounds::at_most(10.0, " %").judge(says, 100.0 * (high - low) / (high + low)))
}

fn charts(plays: &Plays<'_>) -> Vec<Chart> {
    let probe_rate = |played: &Played| played.all.probes_per_query();
    let x = || log_axis("probes a query");
    vec![
        Chart {
            title: "Latency by probing rate".to_owned(),
            x: x(),
            y: log_axis("latency, ms"),
            plot: Plot::Lines(latency_lines(plays, probe_rate)),
        },
        Chart {
            title: "RIF by probing rate".to_owned(),
            x: x(),
            y: axis("requests in flight at a replica"),
            plot: Plot::Lines(rif_lines(plays, probe_rate)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};
    use crate::policy::PolicyKind;

    fn run(p99: f64, rif_p99: u64) -> Measured {
        let mut run = trial::run([80.0, 200.0, p99, 2.0 * p99]);
        run.rif.record_n(rif_p99, 100);
        run
    }

    /// Results as in the paper.
    fn paper(cell: &Cell) -> Measured {
        match cell.step.as_str() {
            "1" => run(330.0, 26),
            "0.71" => run(400.0, 34),
            "0.5" => run(800.0, 60),
            _ => run(300.0, 20),
        }
    }

    #[test]
    fn steps_match_probe_rates_of_the_paper() {
        let cells = trial::cells(&Fig8);
        let rates: Vec<_> = cells
            .iter()
            .map(|cell| match &cell.policy.kind {
                PolicyKind::Shipped { settings, .. } => {
                    assert_eq!(settings.prequal.remove_rate.millionths(), 250_000);
                    settings.prequal.probe_rate.millionths()
                }
                PolicyKind::Clairvoyant(_) | PolicyKind::Peer(_) | PolicyKind::Zoned(_) => {
                    panic!("prequal alone")
                }
            })
            .collect();
        assert_eq!(
            rates,
            [
                4_000_000, 2_828_427, 2_000_000, 1_414_214, 1_000_000, 707_107, 500_000
            ]
        );
    }

    #[test]
    fn paper_results_reproduce_every_claim() {
        let findings = Fig8.findings(&trial::played(&Fig8, paper));
        assert_eq!(findings.claims.len(), 1 + 3);
        for claim in findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
    }

    #[test]
    fn each_claim_can_fail() {
        let upsets: [(&[&str], &str, (f64, u64)); 5] = [
            (&["flat"], "4", (367.0, 20)),
            (&["flat"], "1.41", (245.0, 20)),
            (&["half a probe"], "0.5", (599.0, 60)),
            (&["0.71 against"], "0.71", (400.0, 29)),
            (&["0.5 against"], "0.5", (800.0, 33)),
        ];
        for (words, step, (p99, rif_p99)) in upsets {
            let played = trial::played(&Fig8, |cell| {
                if cell.step == step {
                    run(p99, rif_p99)
                } else {
                    paper(cell)
                }
            });
            assert_eq!(
                verdicts(&Fig8, &played, words),
                [NotReproduced],
                "{words:?}"
            );
        }
    }
}
