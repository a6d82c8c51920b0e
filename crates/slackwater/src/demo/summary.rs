//! The results of a demo: the figures for `--json`, and the closing table and verdict for people.
//!
//! The names in the JSON are an interface (`docs/reference/demo.md` lists them). Each side has
//! everything that `slackwater load` measures, so `p50_ms`, `p99_ms`, `p999_ms`, `errors` and
//! `requests` mean the same in both.

use super::picture::{Picks, Side, names};
use super::verdict::{Contender, Tense, doubt, ratio, verdict};
use crate::load;
use crate::terminal::words;
use core::fmt::{self, Display, Formatter};
use serde::Serialize;

/// The figures of a whole demo.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    pub(super) replicas: usize,
    /// Requests per second to each side.
    pub(super) rate: f64,
    pub(super) seed: u64,
    /// Length of the schedule; shorter than requested if it was interrupted.
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
    /// How often a knob was turned during the run.
    pub(super) knobs_turned: u64,
    /// Ratio of the first side's 99th percentile to the second's; `None` if nothing was measured.
    pub(super) p99_ratio: Option<f64>,
    /// As given by `--policy` and `--versus`.
    pub(super) sides: [SideSummary; 2],
}

/// The figures of one side.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SideSummary {
    pub(super) policy: &'static str,
    #[serde(flatten)]
    pub(super) load: load::Summary,
    /// How often each reason decided a pick.
    pub(super) picks: Vec<Picks>,
    pub(super) probes_sent: u64,
    pub(super) probes_answered: u64,
    pub(super) probes_lost: u64,
    /// By index of the replica.
    pub(super) served_by_replica: Vec<u64>,
    /// Most requests in flight that were seen at one replica.
    pub(super) rif_high: u32,
}

impl SideSummary {
    /// Combines the last state of a side with its measurements.
    pub(super) fn new(side: &Side, load: load::Summary) -> Self {
        let replicas = side.replicas.iter();
        Self {
            policy: side.policy,
            load,
            picks: side.balancer.picks.clone(),
            probes_sent: side.balancer.probes_sent,
            probes_answered: side.balancer.probes_answered,
            probes_lost: side.balancer.probes_lost,
            rif_high: replicas.map(|r| r.rif_high).max().unwrap_or(0),
            served_by_replica: side.replicas.iter().map(|r| r.served).collect(),
        }
    }

    /// The 99th percentile; `None` if no request ended.
    fn p99_ms(&self) -> Option<f64> {
        (self.load.requests > 0).then_some(self.load.latency.p99_ms)
    }
}

impl Summary {
    /// Summarizes two sides.
    pub(super) fn new(replicas: usize, knobs_turned: u64, sides: [SideSummary; 2]) -> Self {
        let [first, second] = sides.each_ref().map(|side| &side.load);
        Self {
            replicas,
            rate: first.rate,
            seed: first.seed,
            seconds: first.seconds,
            interrupted: first.interrupted || second.interrupted,
            knobs_turned,
            p99_ratio: ratio(sides.each_ref().map(SideSummary::p99_ms)),
            sides,
        }
    }
}

impl Display for Summary {
    /// Writes the closing text, without a last line break.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = names(self.sides.each_ref().map(|side| side.policy));
        self.fmt_table(f, &names)?;
        let contender = |index: usize| {
            let side = &self.sides[index];
            Contender {
                name: &names[index],
                requests: side.load.requests,
                errors: side.load.errors,
                p99_ms: side.p99_ms(),
            }
        };
        let sides = [contender(0), contender(1)];
        write!(f, "\n{}", verdict(sides, Tense::Past))?;
        let loads = self.sides.iter().map(|side| &side.load);
        let late_ms = loads.map(|load| load.sent_late.p99_ms).fold(0.0, f64::max);
        if let Some(doubt) = doubt(late_ms, Tense::Past) {
            write!(f, "\n{doubt}")?;
        }
        if self.knobs_turned > 0 {
            let times = words::count(self.knobs_turned);
            write!(
                f,
                "\nknobs were turned ({times}): the figures are of all that was played"
            )?;
        }
        Ok(())
    }
}

impl Summary {
    fn fmt_table(&self, f: &mut Formatter<'_>, names: &[String; 2]) -> fmt::Result {
        write!(f, "{} replicas a side, ", self.replicas)?;
        write!(f, "{} requests/s to each ", words::rate(self.rate))?;
        write!(f, "for {:.1} s, seed {}", self.seconds, self.seed)?;
        f.write_str(if self.interrupted {
            " (interrupted)\n"
        } else {
            "\n"
        })?;
        let [first, second] = self.sides.each_ref().map(SideSummary::cells);
        let rows = first.iter().zip(&second);
        writeln!(f, "  {:<24}{:>16}{:>16}", "", names[0], names[1])?;
        for ((name, first), (_, second)) in rows {
            writeln!(f, "  {name:<24}{first:>16}{second:>16}")?;
        }
        Ok(())
    }
}

impl SideSummary {
    /// This side's column of the table, with the names of the rows.
    fn cells(&self) -> [(&'static str, String); 7] {
        let (load, latency) = (&self.load, &self.load.latency);
        let ms = |ms| words::ms_if_any((load.requests > 0).then_some(ms));
        [
            ("p50", ms(latency.p50_ms)),
            ("p99", ms(latency.p99_ms)),
            ("p99.9", ms(latency.p999_ms)),
            ("longest", ms(latency.max_ms)),
            ("errors", words::count(load.errors)),
            ("requests", words::count(load.requests)),
            ("most at one replica", words::count(self.rif_high.into())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::picture::{Balancer, Recent, ReplicaState};
    use crate::load::{Plan, Run};
    use core::time::Duration;

    /// A side with these figures, without a run.
    async fn side(policy: &'static str, p99_ms: f64, requests: u64) -> SideSummary {
        let target = "http://127.0.0.1:1/".parse().expect("an address");
        let plan = Plan::new(target, 400.0, Duration::from_secs(30));
        let run = Run::prepare(plan, 1).await.expect("a plain address");
        let mut load = run.live().summary();
        load.requests = requests;
        load.seconds = 30.0;
        load.interrupted = false;
        load.latency.p50_ms = 21.0;
        load.latency.p99_ms = p99_ms;
        load.latency.p999_ms = 2.0 * p99_ms;
        load.latency.max_ms = 3.0 * p99_ms;
        let replica = |served| ReplicaState {
            rif: 0,
            rif_high: 7,
            served,
        };
        let picture = Side {
            service: policy.to_owned(),
            policy,
            requests,
            errors: 0,
            recent: Recent {
                requests: 0,
                errors: 0,
                latency: None,
            },
            overall: Recent::default(),
            replicas: vec![replica(2), replica(3)],
            balancer: Balancer {
                probes_sent: 9,
                ..Balancer::default()
            },
        };
        SideSummary::new(&picture, load)
    }

    #[tokio::test]
    async fn the_summary_is_a_table_and_a_verdict() {
        let sides = [
            side("prequal", 142.0, 12_034).await,
            side("round_robin", 1_310.0, 12_034).await,
        ];
        let mut summary = Summary::new(2, 3, sides);
        summary.sides[1].load.sent_late.p99_ms = 12.0;
        let expected = "\
2 replicas a side, 400 requests/s to each for 30.0 s, seed 1
                                   prequal     round_robin
  p50                                21 ms           21 ms
  p99                               142 ms        1,310 ms
  p99.9                             284 ms        2,620 ms
  longest                           426 ms        3,930 ms
  errors                                 0               0
  requests                          12,034          12,034
  most at one replica                    7               7

prequal's p99 was 0.11 of round_robin's: 142 ms against 1,310 ms
this computer was too busy: 1 % of the requests left over 12 ms late
knobs were turned (3): the figures are of all that was played";
        assert_eq!(summary.to_string(), expected);
    }

    #[tokio::test]
    async fn json_has_load_measurements_and_demo_figures() {
        let sides = [
            side("random", 10.0, 100).await,
            side("random", 20.0, 0).await,
        ];
        let summary = Summary::new(2, 0, sides);
        assert!(summary.to_string().contains("random (1)"));
        assert!(summary.to_string().ends_with("nothing measured yet"));
        let json = serde_json::to_value(&summary).expect("plain figures");
        assert_eq!(json["p99_ratio"], serde_json::Value::Null);
        let side = &json["sides"][0];
        assert_eq!(side["policy"], "random");
        assert_eq!(
            (&side["requests"], &side["p99_ms"]),
            (&100.into(), &10.0.into())
        );
        assert_eq!(side["served_by_replica"], serde_json::json!([2, 3]));
        assert_eq!(
            (&side["rif_high"], &side["probes_sent"]),
            (&7.into(), &9.into())
        );
    }
}
