//! What agents have learned of their replicas, as a probe is told it: capacity, and what a query costs.

use crate::loopback::http;
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};

/// Where an agent answers probes over HTTP.
const PROBE: &str = "/prequal/probe";

/// What one replica's agent said at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Word {
    /// From the beginning of the turn.
    pub(super) at: Duration,
    pub(super) rif: f64,
    /// In requests in flight; `None` while it is not known.
    pub(super) capacity_rif: Option<f64>,
    pub(super) cost_ms: Option<f64>,
}

impl Word {
    /// Asks an agent.
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

/// The mean of some numbers, and how far they usually are from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Mean {
    /// `None` of no numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let numbers: Vec<f64> = numbers.into_iter().collect();
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares = numbers.iter().map(|number| (number - mean).powi(2));
        let deviation = (squares.sum::<f64>() / count).sqrt();
        (count > 0.0).then_some(Self { mean, deviation })
    }
}

/// What was learned in one turn of one half of a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Half {
    pub(super) capacity_rif: Option<Mean>,
    pub(super) cost_ms: Option<Mean>,
}

/// Of the first half and the second; `words` are those of each replica.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    pub(super) fn word(capacity_rif: Option<f64>, cost_ms: Option<f64>) -> Word {
        Word {
            at: Duration::from_millis(1_250),
            rif: 2.0,
            capacity_rif,
            cost_ms,
        }
    }

    /// What is made of an answer with these headers.
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
    fn an_answer_is_read_and_what_is_not_known_is_no_number() {
        let known = "x-prequal-rif: 2\r\nx-slackwater-capacity-millirif: 1500\r\nx-slackwater-cost-ns: 2250000";
        assert_eq!(asked(known), Ok(word(Some(1.5), Some(2.25))));
        assert_eq!(asked("x-prequal-rif: 2"), Ok(word(None, None)));
        let message = asked("content-length: 0").unwrap_err();
        assert!(message.ends_with("without a report"), "{message}");
        assert_eq!(word(Some(1.5), None).raw(), json!([1.25, 2.0, 1.5, null]));
    }

    #[test]
    fn halves_are_means_over_replicas_and_moments() {
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
        assert_eq!(first.cost_ms, None, "nobody knew it");
        assert_eq!(second.capacity_rif.map(|it| it.mean), Some(2.0));
    }
}
