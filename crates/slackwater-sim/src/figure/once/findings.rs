//! The findings: the claims, a table of every variant, one of short and long queries, and a chart.

use super::cases::{Variant, WORLDS, World};
use super::rules::{Player, Quantity, Rule, rules};
use super::{COUNTING, DEFAULT, SIZING};
use crate::Measured;
use crate::figure::cells::{Plays, latency_ms};
use crate::figure::charts::axis;
use crate::figure::judge::{claim, number};
use crate::figure::{Bars, Chart, Claim, Findings, Played, Plot, Table};
use crate::interval::Estimate;

/// Variants of the chart, with their names.
const CHARTED: [(&str, Player, Variant); 4] = [
    ("default", Player::Default, Variant::Once),
    (
        "default, tied before queues",
        Player::Default,
        Variant::Tied,
    ),
    ("default, second copies", Player::Default, Variant::Hedged),
    ("clairvoyant", Player::Clairvoyant, Variant::Once),
];
/// Bars end here, in milliseconds.
const CHART_LIMIT_MS: f64 = 600.0;

/// The results, by world, player and variant.
#[derive(Debug)]
struct Results<'a>(Plays<'a>);

pub(super) fn findings(played: &[Played]) -> Findings {
    let results = Results(Plays::new(played));
    Findings {
        claims: (rules().iter())
            .filter_map(|rule| rule.judge(&results))
            .collect(),
        charts: results.chart().into_iter().collect(),
        tables: [results.variants(), results.classes(), results.worlds()]
            .into_iter()
            .flatten()
            .collect(),
    }
}

impl Rule {
    /// Judges the claim; `None` if one of the two results is missing.
    fn judge(&self, results: &Results<'_>) -> Option<Claim> {
        let ratio = results.ratio(self.world, self.quantity, self.of, self.over)?;
        let (low, high) = (*self.range.start(), *self.range.end());
        let asked = match (low > 0.0, high.is_finite()) {
            (true, true) => format!("{} to {}", number(low), number(high)),
            (true, false) => format!("at least {}", number(low)),
            _ => format!("at most {}", number(high)),
        };
        let interval = ratio.interval.map_or_else(String::new, |(from, to)| {
            format!(" ({} to {})", number(from), number(to))
        });
        Some(claim(
            format!("(ours) {}: {}", self.world, self.says),
            format!("{}{interval} times (asked: {asked})", number(ratio.value)),
            self.range.contains(&ratio.value),
        ))
    }
}

impl Quantity {
    fn of(self, run: &Measured) -> f64 {
        let [short, _] = &run.latency_by_class;
        match self {
            Self::Mean => run.latency.mean().as_secs_f64() * 1e3,
            Self::P99 => latency_ms(run, 0.99),
            Self::P999 => latency_ms(run, 0.999),
            Self::ShortMean => short.mean().as_secs_f64() * 1e3,
            Self::ShortP99 => short.quantile(0.99).as_secs_f64() * 1e3,
            Self::Errors => 100.0 * run.error_share(),
            Self::Work => run.utilization.mean(),
        }
    }
}

impl<'a> Results<'a> {
    fn find(&self, world: &str, policy: &str, variant: Variant) -> Option<&'a Played> {
        let plays = self.0.at(world);
        let plays = plays.only(|cell| cell.param == variant.param());
        plays.find(world, policy)
    }

    /// Returns a quantity of all seeds together, and of each seed.
    fn values(
        &self,
        world: &str,
        quantity: Quantity,
        (player, variant): (Player, Variant),
    ) -> Option<(f64, Vec<f64>)> {
        let of = |policy| {
            let found = self.find(world, policy, variant)?;
            let runs = found.runs.iter().map(|run| quantity.of(run));
            Some((quantity.of(&found.all), runs.collect::<Vec<f64>>()))
        };
        match player {
            Player::Default => of(DEFAULT),
            Player::Counting => of(COUNTING),
            Player::Sizing => of(SIZING),
            Player::Clairvoyant => {
                let ((a, a_runs), (b, b_runs)) = (of(COUNTING)?, of(SIZING)?);
                let runs = a_runs.iter().zip(&b_runs).map(|(a, b)| a.min(*b));
                Some((a.min(b), runs.collect()))
            }
        }
    }

    /// Returns one result as a multiple of another. A ratio of seeds that have zeros is that of all
    /// seeds together, without an interval; `None` if that is undefined, too.
    fn ratio(
        &self,
        world: &str,
        quantity: Quantity,
        of: (Player, Variant),
        over: (Player, Variant),
    ) -> Option<Estimate> {
        let (all, runs) = self.values(world, quantity, of)?;
        let (base_all, base_runs) = self.values(world, quantity, over)?;
        Estimate::ratio(&runs, &base_runs).or_else(|| {
            (base_all > 0.0).then(|| Estimate {
                value: all / base_all,
                interval: None,
            })
        })
    }

    fn variants(&self) -> Option<Table> {
        let columns = [
            "world",
            "variant",
            "mean, ms",
            "p99, ms",
            "p99.9, ms",
            "errors, %",
            "work, times",
            "p99, times",
            "p99.9, times",
            "clairvoyant: mean, ms",
            "p99, ms",
            "p99.9, ms",
            "errors, %",
        ];
        let mut rows = Vec::new();
        for world in WORLDS {
            for variant in world.variants() {
                rows.extend(self.row(world.name, variant));
            }
        }
        (!rows.is_empty()).then(|| Table {
            title: "The default policy in each variant, as a multiple of the world as it is, and the better clairvoyant".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows,
        })
    }

    fn row(&self, world: &str, variant: Variant) -> Option<Vec<String>> {
        use Quantity::{Errors, Mean, P99, P999, Work};
        const SHOWN: [Quantity; 4] = [Mean, P99, P999, Errors];
        self.find(world, DEFAULT, variant)?;
        let (ours, once) = ((Player::Default, variant), (Player::Default, Variant::Once));
        let shown = |quantity, player| {
            let values = self.values(world, quantity, (player, variant));
            values.map_or_else(String::new, |(all, _)| number(all))
        };
        let mut row = vec![world.to_owned(), variant.param().to_owned()];
        row.extend(SHOWN.map(|quantity| shown(quantity, Player::Default)));
        row.extend([Work, P99, P999].map(|quantity| {
            let ratio = self.ratio(world, quantity, ours, once);
            ratio.map_or_else(String::new, |ratio| {
                let interval = ratio.interval.filter(|_| quantity != Work);
                let interval = interval.map_or_else(String::new, |(low, high)| {
                    format!(" ({low:.2} to {high:.2})")
                });
                format!("{:.2}{interval}", ratio.value)
            })
        }));
        row.extend(SHOWN.map(|quantity| shown(quantity, Player::Clairvoyant)));
        Some(row)
    }

    /// Returns the table of short and long queries, with each player.
    fn classes(&self) -> Option<Table> {
        let plays = self.0.iter().filter(|played| {
            let classes = played.cell.scenario.load.classes;
            classes.is_some()
        });
        let rows: Vec<Vec<String>> = plays
            .map(|played| {
                let (cell, run) = (&played.cell, &played.all);
                let names = [&cell.step, &cell.policy.name, &cell.param];
                let mut row: Vec<String> = names.map(Clone::clone).to_vec();
                for latency in &run.latency_by_class {
                    row.extend([
                        number(latency.mean().as_secs_f64() * 1e3),
                        number(latency.quantile(0.99).as_secs_f64() * 1e3),
                    ]);
                }
                row
            })
            .collect();
        let columns = [
            "world",
            "policy",
            "variant",
            "short: mean, ms",
            "p99, ms",
            "long: mean, ms",
            "p99, ms",
        ];
        (!rows.is_empty()).then(|| Table {
            title: "Short and long queries".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows,
        })
    }

    /// Returns the worlds that were played.
    fn played(&self) -> Vec<World> {
        let found = |world: &World| self.find(world.name, DEFAULT, Variant::Once).is_some();
        WORLDS.into_iter().filter(found).collect()
    }

    fn worlds(&self) -> Option<Table> {
        let rows: Vec<Vec<String>> = (self.played().iter())
            .map(|world| {
                let load = number(world.load);
                vec![world.name.to_owned(), world.about.to_owned(), load]
            })
            .collect();
        (!rows.is_empty()).then(|| Table {
            title: "The worlds".to_owned(),
            columns: ["world", "what it is", "load"].map(str::to_owned).to_vec(),
            rows,
        })
    }

    fn chart(&self) -> Option<Chart> {
        let worlds: Vec<&str> = self.played().iter().map(|world| world.name).collect();
        let series = CHARTED.into_iter().map(|(name, player, variant)| {
            let value = |world: &&str| {
                let values = self.values(world, Quantity::P99, (player, variant));
                values.map_or(f64::NAN, |(all, _)| all)
            };
            Bars {
                name: name.to_owned(),
                values: worlds.iter().map(value).collect(),
                marks: vec![None; worlds.len()],
            }
        });
        (!worlds.is_empty()).then(|| Chart {
            title: "p99 of the default as it is, with second copies, and of the clairvoyant"
                .to_owned(),
            x: axis("world"),
            y: axis("p99, ms"),
            plot: Plot::Bars {
                groups: worlds.iter().map(|&world| world.to_owned()).collect(),
                series: series.collect(),
                limit: Some(CHART_LIMIT_MS),
            },
        })
    }
}
