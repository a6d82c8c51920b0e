//! What clients saw: latencies, hits, errors, and which replica answered.

use core::time::Duration;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Hit(u32),
    Miss(u32),
    /// A response that is not a replica's.
    Status(u16),
    /// No complete response.
    Broken,
    /// No response in time.
    Late,
}

impl Outcome {
    /// Reads a response; a replica's names the replica, and whether it was a hit.
    pub(crate) fn of(status: u16, body: &str) -> Self {
        let parts = body.trim().split_once(' ');
        let replica = parts.and_then(|(index, word)| Some((index.parse().ok()?, word)));
        match (status, replica) {
            (200, Some((index, "hit"))) => Self::Hit(index),
            (200, Some((index, "miss"))) => Self::Miss(index),
            _ => Self::Status(status),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Summary {
    hits: u64,
    misses: u64,
    errors: BTreeMap<String, u64>,
    by_replica: BTreeMap<u32, u64>,
    latencies_us: Vec<u64>,
    late_us: Vec<u64>,
}

impl Summary {
    /// Counts a request; failed ones have a latency, too.
    pub(crate) fn note(&mut self, outcome: &Outcome, latency: Duration) {
        self.latencies_us.push(micros(latency));
        let error = match outcome {
            Outcome::Hit(replica) | Outcome::Miss(replica) => {
                let is_hit = matches!(outcome, Outcome::Hit(_));
                self.hits += u64::from(is_hit);
                self.misses += u64::from(!is_hit);
                *self.by_replica.entry(*replica).or_default() += 1;
                return;
            }
            Outcome::Status(status) => format!("status_{status}"),
            Outcome::Broken => "broken".to_owned(),
            Outcome::Late => "timeout".to_owned(),
        };
        *self.errors.entry(error).or_default() += 1;
    }

    /// Records the generator's own delay of a request.
    pub(crate) fn note_late(&mut self, late: Duration) {
        self.late_us.push(micros(late));
    }

    pub(crate) fn json(mut self) -> Value {
        self.latencies_us.sort_unstable();
        self.late_us.sort_unstable();
        let latency = |q| quantile_ms(&self.latencies_us, q);
        let replicas: BTreeMap<_, _> = (self.by_replica.iter())
            .map(|(index, count)| (index.to_string(), count))
            .collect();
        json!({
            "requests": self.latencies_us.len(),
            "hits": self.hits,
            "misses": self.misses,
            "errors": self.errors.values().sum::<u64>(),
            "errors_by_kind": self.errors,
            "by_replica": replicas,
            "p50_ms": latency(0.5),
            "p99_ms": latency(0.99),
            "p999_ms": latency(0.999),
            "max_ms": latency(1.0),
            "late_p99_ms": quantile_ms(&self.late_us, 0.99),
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The least number that at least the share `q` of all is not above, in milliseconds.
fn quantile_ms(sorted_us: &[u64], q: f64) -> Option<f64> {
    let last = sorted_us.len().checked_sub(1)?;
    // `q` is from 0 to 1, so the result is in range.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a vector"
    )]
    let rank = (q * sorted_us.len() as f64).ceil() as usize;
    let value = sorted_us[rank.saturating_sub(1).min(last)];
    Some(value as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_from_responses() {
        assert_eq!(Outcome::of(200, "3 hit\n"), Outcome::Hit(3));
        assert_eq!(Outcome::of(200, "12 miss\n"), Outcome::Miss(12));
        assert_eq!(Outcome::of(200, "hello"), Outcome::Status(200));
        assert_eq!(Outcome::of(503, "3 hit\n"), Outcome::Status(503));
    }

    #[test]
    fn failed_requests_count_with_their_latency() {
        let mut summary = Summary::default();
        for ms in 1..=98 {
            summary.note(&Outcome::Hit(0), Duration::from_millis(ms));
        }
        summary.note(&Outcome::Miss(1), Duration::from_millis(99));
        summary.note(&Outcome::Late, Duration::from_secs(10));
        summary.note_late(Duration::from_micros(1_500));
        let json = summary.json();
        let found = |name: &str| json[name].as_f64().unwrap();
        assert_eq!(
            (found("requests"), found("hits"), found("misses")),
            (100.0, 98.0, 1.0)
        );
        assert_eq!(
            (found("p50_ms"), found("p99_ms"), found("p999_ms")),
            (50.0, 99.0, 1e4)
        );
        assert_eq!((found("late_p99_ms"), found("errors")), (1.5, 1.0));
        assert_eq!(json["by_replica"], json!({"0": 98, "1": 1}));
        assert_eq!(json["errors_by_kind"], json!({"timeout": 1}));
        assert_eq!(Summary::default().json()["p99_ms"], Value::Null);
    }
}
