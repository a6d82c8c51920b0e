//! The measurements of a turn, from the generator's results, and from CPU time and counts before
//! and after.

use super::learned::{Half, Word, halves};
use core::time::Duration;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// CPU time and counts at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// CPU time of the load generator.
    pub(super) load: Duration,
    pub(super) serve: Duration,
    /// CPU time of all agents.
    pub(super) agents: Duration,
    /// CPU time of each replica.
    pub(super) replicas: Vec<Duration>,
    /// CPU time of each replica's neighbour.
    pub(super) neighbours: Vec<Duration>,
    /// CPU time of all cores, for all processes.
    pub(super) machine: Duration,
    /// Each replica's machine: periods, and periods in which its quota was used up.
    pub(super) periods: Vec<[u64; 2]>,
    /// Each replica's name in `serve`.
    pub(super) names: Vec<String>,
    /// The status of `serve`.
    pub(super) status: Value,
}

/// A measurement of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Column {
    P50,
    P99,
    P999,
    /// Failed requests, as a share of all that were measured.
    Errors,
    /// Requests that would have to go elsewhere for the load to follow capacity.
    Astray,
    /// Probes for each request.
    Probes,
    /// CPU of `serve`, agents and load, as a share of all cores.
    Apparatus,
    /// CPU of replicas and neighbours.
    Fleet,
    /// CPU of everything else on the machine.
    Others,
    /// The generator's own lateness, at its 99th percentile.
    Late,
}

impl Column {
    pub(super) const ALL: [Self; 10] = [
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Errors,
        Self::Astray,
        Self::Probes,
        Self::Apparatus,
        Self::Fleet,
        Self::Others,
        Self::Late,
    ];

    /// The header of its column.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::P50 => "p50 ms",
            Self::P99 => "p99 ms",
            Self::P999 => "p99.9 ms",
            Self::Errors => "errors %",
            Self::Astray => "astray %",
            Self::Probes => "probes a query",
            Self::Apparatus => "apparatus CPU %",
            Self::Fleet => "fleet CPU %",
            Self::Others => "other CPU %",
            Self::Late => "late ms",
        }
    }

    /// The key in JSON.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::P50 => "p50_ms",
            Self::P99 => "p99_ms",
            Self::P999 => "p999_ms",
            Self::Errors => "errors_percent",
            Self::Astray => "astray_percent",
            Self::Probes => "probes_per_query",
            Self::Apparatus => "apparatus_cpu_percent",
            Self::Fleet => "fleet_cpu_percent",
            Self::Others => "other_cpu_percent",
            Self::Late => "generator_late_p99_ms",
        }
    }

    /// The value in a table cell.
    pub(super) fn written(self, value: f64) -> String {
        match self {
            Self::P50 | Self::P99 | Self::P999 => format!("{value:.0}"),
            Self::Errors | Self::Probes | Self::Late => format!("{value:.2}"),
            _ => format!("{value:.1}"),
        }
    }
}

/// The measurements of a turn.
#[derive(Debug)]
pub(super) struct Found {
    numbers: BTreeMap<Column, f64>,
    /// Share of all requests for each replica, in percent.
    pub(super) shares: Vec<f64>,
    /// Share of the fleet's capacity for each replica, in percent.
    pub(super) capacity_shares: Vec<f64>,
    /// Requests per second that a replica can answer, as the mean of the first half and of the
    /// second.
    pub(super) capacities: [f64; 2],
    /// What agents learned about the two halves.
    pub(super) learned: [Half; 2],
    /// All raw values.
    pub(super) raw: Value,
}

impl Found {
    /// `capacities` are requests per second that each replica could answer in that time, `words`
    /// the answers of their agents.
    pub(super) fn new(
        seen: &Value,
        before: &Sample,
        after: &Sample,
        capacities: &[f64],
        words: &[Vec<Word>],
    ) -> Self {
        let lasted = after.at - before.at;
        let cores = |before: Duration, after: Duration| {
            after.saturating_sub(before).div_duration_f64(lasted)
        };
        let each = |before: &[Duration], after: &[Duration]| -> Vec<f64> {
            let both = before.iter().zip(after);
            both.map(|(before, after)| cores(*before, *after)).collect()
        };
        let (replicas, neighbours) = (
            each(&before.replicas, &after.replicas),
            each(&before.neighbours, &after.neighbours),
        );
        let (load, serve, agents, machine) = (
            cores(before.load, after.load),
            cores(before.serve, after.serve),
            cores(before.agents, after.agents),
            cores(before.machine, after.machine),
        );
        let (apparatus, fleet) = (
            load + serve + agents,
            replicas.iter().chain(&neighbours).sum::<f64>(),
        );
        let sent = requests(before).into_iter().zip(requests(after));
        let sent: Vec<f64> = sent.map(|(before, after)| after - before).collect();
        let all_sent: f64 = sent.iter().sum();
        let (shares, capacity_shares) = (percents(&sent), percents(capacities));

        let of_cores = |used: f64| used / super::cpu::cores() as f64 * 100.0;
        let number = |name: &str| seen[name].as_f64();
        let probes = probes(after) - probes(before);
        let numbers = [
            (Column::P50, number("p50_ms")),
            (Column::P99, number("p99_ms")),
            (Column::P999, number("p999_ms")),
            (
                Column::Errors,
                ratio(number("errors"), number("requests")).map(|part| part * 100.0),
            ),
            (Column::Astray, Some(astray(&shares, &capacity_shares))),
            (Column::Probes, ratio(Some(probes), Some(all_sent))),
            (Column::Apparatus, Some(of_cores(apparatus))),
            (Column::Fleet, Some(of_cores(fleet))),
            // With clocks in steps of 10 ms, the parts may be a little more than the whole.
            (
                Column::Others,
                Some(of_cores((machine - apparatus - fleet).max(0.0))),
            ),
            (Column::Late, seen["sent_late"]["p99_ms"].as_f64()),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(column, value)| Some((column, value?)));
        let numbers: BTreeMap<_, _> = numbers.collect();
        let of_each = (0..sent.len()).map(|index| {
            let [periods, throttled] = [0, 1]
                .map(|kind| after.periods[index][kind].saturating_sub(before.periods[index][kind]));
            json!({
                "requests": sent[index],
                "share_percent": shares[index],
                "capacity_per_s": capacities[index],
                "capacity_share_percent": capacity_shares[index],
                "cpu_cores": replicas[index],
                "neighbour_cpu_cores": neighbours[index],
                "periods": periods,
                "periods_throttled": throttled,
                "learned": words[index].iter().map(Word::raw).collect::<Vec<_>>(),
            })
        });
        let named = numbers.iter().map(|(column, value)| (column.key(), value));
        let raw = json!({
            "numbers": named.collect::<BTreeMap<_, _>>(),
            "replicas": of_each.collect::<Vec<_>>(),
            "cpu_cores": {
                "load": load, "serve": serve, "agents": agents, "fleet": fleet, "machine": machine,
            },
            "load": seen,
        });
        let (first, second) = capacities.split_at(capacities.len() / 2);
        let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len() as f64;
        Self {
            numbers,
            shares,
            capacity_shares,
            capacities: [mean(first), mean(second)],
            learned: halves(words),
            raw,
        }
    }

    /// Returns `None` if there is no data for it.
    pub(super) fn of(&self, column: Column) -> Option<f64> {
        self.numbers.get(&column).copied()
    }
}

/// Requests sent to each replica so far.
fn requests(sample: &Sample) -> Vec<f64> {
    let replicas = sample.status["replicas"].as_array();
    let sent = sample.names.iter().map(|name| {
        let mut replicas = replicas.into_iter().flatten();
        let replica = replicas.find(|replica| replica["address"] == name.as_str());
        replica.and_then(|replica| replica["requests"]["sent"].as_f64())
    });
    sent.map(Option::unwrap_or_default).collect()
}

fn probes(sample: &Sample) -> f64 {
    let sent = sample.status["counts"]["probes"]["sent"].as_f64();
    sent.unwrap_or_default()
}

fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole.filter(|whole| *whole > 0.0)?)
}

fn percents(numbers: &[f64]) -> Vec<f64> {
    let all: f64 = numbers.iter().sum();
    let percent = |number: &f64| ratio(Some(*number), Some(all)).unwrap_or_default() * 100.0;
    numbers.iter().map(percent).collect()
}

/// The sum of the excesses over the correct shares, which equals the sum of the deficits.
fn astray(shares: &[f64], capacity_shares: &[f64]) -> f64 {
    let both = shares.iter().zip(capacity_shares);
    both.map(|(share, capacity)| (share - capacity).max(0.0))
        .sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A sample of a fleet of two.
    fn sample(at: Instant, seconds: u64, sent: [u64; 2], probes: u64) -> Sample {
        let used = |percent: u64| Duration::from_millis(seconds * percent * 10);
        Sample {
            at: at + Duration::from_secs(seconds),
            load: used(1),
            serve: used(2),
            agents: used(3),
            replicas: vec![used(20), used(10)],
            neighbours: vec![used(0), used(8)],
            machine: used(50),
            periods: vec![[10 * seconds, seconds], [10 * seconds, 5 * seconds]],
            names: vec!["a".to_owned(), "b".to_owned()],
            // In another order than ours.
            status: json!({
                "replicas": [
                    {"address": "b", "requests": {"sent": sent[1]}},
                    {"address": "a", "requests": {"sent": sent[0]}},
                ],
                "counts": {"probes": {"sent": probes}},
            }),
        }
    }

    /// A turn with this p99.
    pub(in super::super) fn found(p99_ms: f64) -> Found {
        let at = Instant::now();
        let (before, after) = (
            sample(at, 3, [100, 100], 50),
            sample(at, 13, [700, 500], 550),
        );
        let seen = json!({
            "requests": 1_000, "errors": 5, "p50_ms": 1.5, "p99_ms": p99_ms, "p999_ms": 3.5, "sent_late": {"p99_ms": 0.25},
        });
        let word = |capacity_rif, cost_ms| Word {
            at: Duration::from_secs(4),
            rif: 1.0,
            capacity_rif: Some(capacity_rif),
            cost_ms,
        };
        let words = [
            vec![word(1.5, Some(4.0)), word(2.5, Some(4.0))],
            vec![word(1.0, None)],
        ];
        Found::new(&seen, &before, &after, &[150.0, 50.0], &words)
    }

    #[test]
    fn figures_are_read_from_their_sources_in_the_measured_window() {
        let found = found(2.5);
        let cores = crate::room::cpu::cores() as f64;
        for (column, expected) in [
            (Column::P50, 1.5),
            (Column::P99, 2.5),
            (Column::P999, 3.5),
            (Column::Errors, 0.5),
            (Column::Astray, 15.0),
            (Column::Probes, 0.5),
            (Column::Apparatus, 6.0 / cores),
            (Column::Fleet, 38.0 / cores),
            (Column::Others, 6.0 / cores),
            (Column::Late, 0.25),
        ] {
            let value = found.of(column).unwrap();
            assert!((value - expected).abs() < 1e-9, "{}: {value}", column.key());
        }
        assert_eq!(found.shares, [60.0, 40.0]);
        assert_eq!(found.capacity_shares, [75.0, 25.0]);
        let second = &found.raw["replicas"][1];
        assert_eq!(second["requests"], 400.0);
        assert_eq!(
            (&second["periods"], &second["periods_throttled"]),
            (&json!(100), &json!(50))
        );
        assert_eq!(second["neighbour_cpu_cores"], 0.08);
        assert_eq!(second["learned"], json!([[4.0, 1.0, 1.0, null]]));
    }

    #[test]
    fn missing_data_yields_no_figure() {
        let at = Instant::now();
        let (before, after) = (sample(at, 1, [0, 0], 0), sample(at, 2, [0, 0], 0));
        let found = Found::new(&json!({}), &before, &after, &[1.0, 1.0], &[vec![], vec![]]);
        for column in [Column::P50, Column::Errors, Column::Probes, Column::Late] {
            assert_eq!(found.of(column), None, "{}", column.key());
        }
        assert_eq!(found.shares, [0.0, 0.0]);
    }
}
