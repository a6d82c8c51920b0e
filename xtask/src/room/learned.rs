//! What agents have learned of their replicas, as they answer probes: capacity, and the cost of a
//! query.

use super::measure::Found;
use crate::loopback::http;
use crate::spread::Spread;
use crate::table::markdown;
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};

/// The agents' path of HTTP probes.
const PROBE: &str = "/prequal/probe";

/// The answer of a replica's agent at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Word {
    /// Time since the beginning of the turn.
    pub(super) at: Duration,
    pub(super) rif: f64,
    /// In requests in flight; `None` while it is unknown.
    pub(super) capacity_rif: Option<f64>,
    pub(super) cost_ms: Option<f64>,
}

impl Word {
    /// Probes an agent.
    pub(super) fn ask(agent: SocketAddr, at: Duration) -> Result<Self, String> {
        let answer = http::get(agent, PROBE)?;
        let number = |name: &str| answer.header(name)?.parse::<f64>().ok();
        let rif = number("x-prequal-rif");
        Ok(Self {
            at,
            rif: rif.ok_or_else(|| format!("GET {agent}{PROBE}: an answer without a report"))?,
            capacity_rif: number("x-slackwater-capacity-millirif").map(|millirif| millirif / 1e3),
            cost_ms: number("x-slackwater-cost-ns").map(|ns| ns / 1e6),
        })
    }

    /// Seconds, requests in flight, capacity, cost in milliseconds.
    pub(super) fn raw(&self) -> Value {
        let at = (self.at.as_secs_f64() * 1e3).round() / 1e3;
        json!([at, self.rif, self.capacity_rif, self.cost_ms])
    }
}

/// The mean and the standard deviation of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Mean {
    /// Returns `None` for no numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let numbers: Vec<f64> = numbers.into_iter().collect();
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares = numbers.iter().map(|number| (number - mean).powi(2));
        let deviation = (squares.sum::<f64>() / count).sqrt();
        (count > 0.0).then_some(Self { mean, deviation })
    }
}

/// The results of one turn for one half of a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Half {
    pub(super) capacity_rif: Option<Mean>,
    pub(super) cost_ms: Option<Mean>,
}

/// The results for the first half and the second; `words` are the answers of each replica.
pub(super) fn halves(words: &[Vec<Word>]) -> [Half; 2] {
    let (first, second) = words.split_at(words.len() / 2);
    [first, second].map(|half| {
        let words = || half.iter().flatten();
        Half {
            capacity_rif: Mean::of(words().filter_map(|word| word.capacity_rif)),
            cost_ms: Mean::of(words().filter_map(|word| word.cost_ms)),
        }
    })
}

/// What agents learned of both halves, a row for each policy, and the real capacity of the
/// machines. `turns` returns the turns of a policy.
pub(super) fn table<'f>(
    policies: &'f [String],
    turns: impl Fn(&'f str) -> Vec<&'f Found>,
) -> String {
    let titles = [
        "learned",
        "K, first half",
        "K, second half",
        "cost ms, first",
        "cost ms, second",
        "K / cost, requests/s, first",
        "second",
    ];
    let can_do = [0, 1].map(|half| {
        let turns = policies.iter().flat_map(|policy| turns(policy));
        let spread = Spread::of(turns.map(|found| found.capacities[half]));
        spread.map_or_else(unknown, |spread| format!("{:.0}", spread.median))
    });
    let can_do = ["what it can do", "", "", "", ""]
        .map(str::to_owned)
        .into_iter()
        .chain(can_do);
    let mut rows = vec![titles.map(str::to_owned).to_vec(), can_do.collect()];
    for policy in policies {
        let turns = turns(policy);
        let halves = [0, 1].map(|half| {
            let of_turns = || turns.iter().map(|found| found.learned[half]);
            let capacity = middle(of_turns().filter_map(|half| half.capacity_rif));
            let cost = middle(of_turns().filter_map(|half| half.cost_ms));
            let told = |mean: Option<Mean>| {
                mean.map_or_else(unknown, |it| {
                    format!("{:.2} ± {:.2}", it.mean, it.deviation)
                })
            };
            let rate = capacity.zip(cost).map_or_else(unknown, |(capacity, cost)| {
                format!("{:.0}", capacity.mean / cost.mean * 1e3)
            });
            [told(capacity), told(cost), rate]
        });
        let cells = (0..3).flat_map(|kind| [&halves[0][kind], &halves[1][kind]]);
        rows.push([policy].into_iter().chain(cells).cloned().collect());
    }
    markdown(&rows)
}

fn unknown() -> String {
    "-".to_owned()
}

/// The median of the means of some turns, and of their deviations.
fn middle(means: impl Iterator<Item = Mean>) -> Option<Mean> {
    let means: Vec<_> = means.collect();
    Some(Mean {
        mean: Spread::of(means.iter().map(|it| it.mean))?.median,
        deviation: Spread::of(means.iter().map(|it| it.deviation))?.median,
    })
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::found;
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn word(capacity_rif: Option<f64>, cost_ms: Option<f64>) -> Word {
        Word {
            at: Duration::from_millis(1_250),
            rif: 2.0,
            capacity_rif,
            cost_ms,
        }
    }

    /// Parses an answer with these headers.
    fn asked(headers: &str) -> Result<Word, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 256];
            let read = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let word = Word::ask(address, Duration::from_millis(1_250));
        assert!(server.join().unwrap().starts_with("GET /prequal/probe "));
        word
    }

    #[test]
    fn probe_answer_is_read_with_unknown_values_left_out() {
        let known = "x-prequal-rif: 2\r\nx-slackwater-capacity-millirif: 1500\r\nx-slackwater-cost-ns: 2250000";
        assert_eq!(asked(known), Ok(word(Some(1.5), Some(2.25))));
        assert_eq!(asked("x-prequal-rif: 2"), Ok(word(None, None)));
        let message = asked("content-length: 0").unwrap_err();
        assert!(message.ends_with("without a report"), "{message}");
        assert_eq!(word(Some(1.5), None).raw(), json!([1.25, 2.0, 1.5, null]));
    }

    #[test]
    fn halves_are_means_over_replicas_and_samples() {
        let of = |capacities: &[f64]| -> Vec<_> {
            let words = capacities.iter();
            words.map(|it| word(Some(*it), None)).collect()
        };
        let [first, second] = halves(&[of(&[1.0, 3.0]), of(&[5.0, 7.0]), of(&[2.0]), vec![]]);
        let expected = Mean {
            mean: 4.0,
            deviation: 5_f64.sqrt(),
        };
        assert_eq!(first.capacity_rif, Some(expected));
        assert_eq!(first.cost_ms, None, "no agent reported it");
        assert_eq!(second.capacity_rif.map(|it| it.mean), Some(2.0));
    }
    #[test]
    fn first_row_has_true_values_and_each_other_one_policy() {
        let (some, other) = (found(1.0), found(2.0));
        let policies = ["prequal", "round_robin"].map(str::to_owned);
        let text = table(&policies, |policy| match policy {
            "prequal" => vec![&some, &other],
            _ => Vec::new(),
        });
        let row = |name: &str| {
            let row = text
                .lines()
                .find(|line| line.starts_with(&format!("| {name} ")));
            let cells = row.unwrap().split('|').map(str::trim);
            cells.skip(2).take(6).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("what it can do"), ["", "", "", "", "150", "50"]);
        assert_eq!(
            row("prequal"),
            ["2.00 ± 0.50", "1.00 ± 0.00", "4.00 ± 0.00", "-", "500", "-"]
        );
        assert_eq!(row("round_robin"), ["-"; 6]);
    }
}
