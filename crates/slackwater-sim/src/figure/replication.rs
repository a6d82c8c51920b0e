//! Selective replication: more homes for hot partitions, or the same for all keys. `[The Tail at
//! Scale, "Selective replication"]`

use super::cells::{Plays, latency_ms};
use super::charts::axis;
use super::judge::{claim, number};
use super::keyed::around;
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::interval::Estimate;
use crate::policy::PeerRule;
use crate::presets::{hot, keyed};
use crate::{Measured, PolicyChoice};
use core::time::Duration;
use slackwater_core::keys::KeySettings;
use slackwater_core::policy::DEFAULT_POLICY;

/// Hot items: sets that grow against fixed sets.
#[derive(Debug)]
pub(super) struct Replication;

/// One home for each partition, without a bound.
const FIXED: &str = "one home";
/// Up to eight homes for a hot partition, without a bound.
const GROWS: &str = "grows to 8";
/// One home and a bound, with the default set.
const BOUNDED: &str = "bounded";
/// Both: up to eight homes, and the bound.
const BOTH: &str = "bounded, grows to 8";
/// Two homes for every key.
const TWO: &str = "two_homes";

/// Shares of the hot key.
const SHARES: [f64; 4] = [0.0, 0.05, 0.1, 0.2];
const CLIENTS: usize = 16;
const RATE: f64 = 3_200.0;
const WARMUP_SECONDS: u64 = 20;
const SPAN_SECONDS: u64 = 15;

/// A name, and the change of the settings that it stands for.
type Rule = (&'static str, fn(&mut KeySettings));

/// The settings of each of our rules.
const RULES: [Rule; 4] = [
    (FIXED, |it| it.balance_factor_millionths = 0),
    (GROWS, |it| {
        it.balance_factor_millionths = 0;
        grow(it);
    }),
    (BOUNDED, |_| ()),
    (BOTH, grow),
];

fn grow(settings: &mut KeySettings) {
    settings.replicate_max = 8;
    settings.replicate_time = Duration::from_secs(1);
}

impl Figure for Replication {
    fn words(&self) -> Words {
        Words {
            name: "replication",
            title: "Hot items: homes that grow in number, or the same number for all",
            about: "The Tail at Scale, \"Selective replication\": additional replicas of hot items spread their load without moving anything else. \
         16 replicas of four workers with caches of 1,000 keys; 20,000 keys by Zipf's law (0.9) in 1,024 partitions, and one more key with 0 to 20 % \
         of 3,200 queries a second. one home: a partition stays on its home. grows to 8: ours, a partition's homes double while it has more than half \
         of their fair share in flight for 1 s. bounded: ours, one home with the default bound and set. two_homes: every key has two homes, and goes \
         to the one with fewer of this balancer's queries.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for share in SHARES {
            let scenario = hot(share, keyed(RATE, CLIENTS));
            let scenario = effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
            let ours = RULES.iter().filter_map(|(name, change)| {
                let rule = around(DEFAULT_POLICY.name, |it| {
                    it.partitions = 1_024;
                    change(it);
                });
                rule.map(|rule| rule.called(*name))
            });
            let two = core::iter::once(PolicyChoice::peer(PeerRule::TwoHomes));
            cells.extend(
                ours.chain(two)
                    .map(|rule| Cell::of(step(share), share, rule, &scenario)),
            );
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        Findings::of(played, |plays| Findings {
            claims: claims(plays),
            charts: vec![chart(plays)],
            tables: vec![table(plays)],
        })
    }
}

fn step(share: f64) -> String {
    format!("hot {} %", number(100.0 * share))
}

fn p99(run: &Measured) -> f64 {
    latency_ms(run, 0.99)
}

/// Returns a rule's quantity at a share of the hot key, as a multiple of another rule's.
fn ratio(plays: &Plays<'_>, share: f64, rule: &str, base: &str) -> Option<Estimate> {
    let of = |rule| {
        let played = plays.find(&step(share), rule)?;
        Some(played.runs.iter().map(p99).collect::<Vec<_>>())
    };
    Estimate::ratio(&of(rule)?, &of(base)?)
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let [_, _, tenth, fifth] = SHARES;
    let grown = [tenth, fifth].map(|share| {
        let ratio = ratio(plays, share, GROWS, FIXED)?;
        Some(claim(
            format!(
                "a key with {} % of the queries: homes that grow in number take p99 to less than half",
                number(100.0 * share)
            ),
            format!("{} times that of one home", number(ratio.value)),
            ratio.interval.map_or(ratio.value, |(_, high)| high) < 0.5,
        ))
    });
    let hits = |rule| Some(plays.measured(&step(tenth), rule)?.hit_share());
    let only_hot = hits(GROWS).zip(hits(TWO)).map(|(grows, two)| {
        claim(
            "(ours) only hot items are copied: with a key of 10 %, the hit rate is above that of two homes for every key",
            format!("{} %, not {} %", number(100.0 * grows), number(100.0 * two)),
            grows > two,
        )
    });
    let both = ratio(plays, fifth, BOTH, BOUNDED).map(|ratio| {
        claim(
            "(ours) with the bound, growth does not raise p99 by more than a tenth (a key of 20 %)",
            format!("{} times", number(ratio.value)),
            ratio.value <= 1.1,
        )
    });
    let claims = grown.into_iter().chain([only_hot, both]);
    claims.flatten().collect()
}

fn table(plays: &Plays<'_>) -> Table {
    let columns = [
        "hot key",
        "rule",
        "p50, ms",
        "p99, ms",
        "hits, %",
        "errors, %",
    ];
    let rows = plays.iter().map(|played| {
        let run = &played.all;
        vec![
            played.cell.step.clone(),
            played.cell.player(),
            number(latency_ms(run, 0.5)),
            number(p99(run)),
            number(100.0 * run.hit_share()),
            number(100.0 * run.error_share()),
        ]
    });
    Table::new(
        "One hot key under each rule".to_owned(),
        &columns,
        rows.collect(),
    )
}

fn chart(plays: &Plays<'_>) -> Chart {
    let names = RULES.iter().map(|(name, _)| *name).chain([TWO]);
    let lines = names.map(|name| {
        let points = plays.of(name);
        let points = points.iter().map(|played| {
            let share = 100.0 * played.cell.load;
            (share, p99(&played.all))
        });
        Line {
            name: name.to_owned(),
            points: points.collect(),
            interval: Vec::new(),
            reference: false,
        }
    });
    Chart {
        title: "p99 by the share of the hot key".to_owned(),
        x: axis("share of the hot key, %"),
        y: super::charts::log_axis("p99, ms"),
        plot: Plot::Lines(lines.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{self, NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};

    /// Plays in which `rule` has a p99 of `ms`, and every other rule one of 100 ms. Its hit rate is
    /// `hits` in ten, and that of the others one half.
    fn played(rule: &str, ms: f64, hits: u64) -> Vec<Played> {
        trial::played(&Replication, |cell| {
            let is_it = cell.policy.name == rule;
            let mut run = trial::run([if is_it { ms } else { 100.0 }; 4]);
            run.cache_hits = if is_it { hits } else { 5 };
            run.cache_misses = 10 - run.cache_hits;
            run
        })
    }

    fn verdict(words: &str, played: &[Played]) -> Verdict {
        let verdicts = verdicts(&Replication, played, &[words]);
        assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]));
        verdicts[0]
    }

    #[test]
    fn claims_hold_up_to_their_bounds() {
        let words = "grow in number";
        assert_eq!(verdict(words, &played(GROWS, 49.0, 5)), Reproduced);
        assert_eq!(verdict(words, &played(GROWS, 51.0, 5)), NotReproduced);
        let words = "only hot items";
        assert_eq!(verdict(words, &played(GROWS, 100.0, 6)), Reproduced);
        assert_eq!(verdict(words, &played(GROWS, 100.0, 5)), NotReproduced);
        let words = "growth does not raise";
        assert_eq!(verdict(words, &played(BOTH, 109.0, 5)), Reproduced);
        assert_eq!(verdict(words, &played(BOTH, 111.0, 5)), NotReproduced);
    }
}
