//! Honest clients beside an attack: requests at a rate, each on its own connection, with a timeout,
//! and with a check for its own answer.

use super::wire::http1;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Instant;

/// What the clients send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Innocents {
    pub(super) requests: usize,
    pub(super) per_second: usize,
    /// Timeout of a whole request.
    pub(super) timeout: Duration,
    /// POST with a body of 100 bytes, otherwise GET.
    pub(super) posts: bool,
    /// Prefix of each path, with a slash at its start and none at its end.
    pub(super) prefix: &'static str,
}

/// Results of the clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: usize,
    pub(super) failed: usize,
    /// Reasons of failures, with their number.
    pub(super) reasons: BTreeMap<String, usize>,
    /// Durations of the requests that succeeded, sorted.
    pub(super) took: Vec<Duration>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} failed", self.failed, self.sent)?;
        let reasons: Vec<_> = self.reasons.iter().collect();
        if !reasons.is_empty() {
            let reasons = reasons.iter().map(|(why, count)| format!("{count} {why}"));
            write!(f, " ({})", reasons.collect::<Vec<_>>().join(", "))?;
        }
        if let Some(p99) = self.quantile(0.99) {
            write!(f, ", p99 {} ms", p99.as_millis())?;
        }
        Ok(())
    }
}

impl Tally {
    /// Adds the results of others.
    pub(super) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.failed += other.failed;
        for (why, count) in other.reasons {
            *self.reasons.entry(why).or_default() += count;
        }
        self.took.extend(other.took);
        self.took.sort_unstable();
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is an index"
    )]
    fn quantile(&self, share: f64) -> Option<Duration> {
        let last = self.took.len().checked_sub(1)?;
        let index = (self.took.len() as f64 * share) as usize;
        self.took.get(index.min(last)).copied()
    }

    fn note(&mut self, outcome: Result<Duration, String>) {
        self.sent += 1;
        match outcome {
            Ok(took) => self.took.push(took),
            Err(why) => {
                self.failed += 1;
                *self.reasons.entry(why).or_default() += 1;
            }
        }
    }
}

impl Innocents {
    /// Sends all requests. A request starts when it is due, even if earlier ones hang.
    pub(super) fn send(&self, address: SocketAddr) -> Tally {
        // A thread may be blocked for the whole timeout and must be free for its next request.
        let hang = self.per_second * usize::try_from(self.timeout.as_secs() + 1).unwrap_or(1);
        let threads = self.requests.clamp(1, hang.max(1));
        let begun = Instant::now();
        let mut tally = Tally::default();
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|first| {
                    scope.spawn(move || {
                        let mut tally = Tally::default();
                        for index in (first..self.requests).step_by(threads) {
                            let due =
                                Duration::from_secs_f64(index as f64 / self.per_second as f64);
                            std::thread::sleep(due.saturating_sub(begun.elapsed()));
                            tally.note(self.ask(address, index));
                        }
                        tally
                    })
                })
                .collect();
            for thread in running {
                match thread.join() {
                    Ok(found) => tally.add(found),
                    Err(_) => tally.note(Err("a client panicked".to_owned())),
                }
            }
        });
        tally
    }

    fn ask(&self, address: SocketAddr, index: usize) -> Result<Duration, String> {
        let path = format!("{}/innocent-{index}", self.prefix);
        ask(address, &path, self.posts, self.timeout)
    }
}

/// Sends a request that must get its own answer in time.
pub(super) fn ask(
    address: SocketAddr,
    path: &str,
    posts: bool,
    timeout: Duration,
) -> Result<Duration, String> {
    let request = if posts {
        http1::post(path, 100)
    } else {
        http1::get(path)
    };
    let begun = Instant::now();
    let response = http1::ask(address, &request, timeout).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "timed out".to_owned(),
        kind => kind.to_string(),
    })?;
    if response.status != 200 {
        return Err(format!("got {}", response.status));
    }
    // A route may have removed a prefix, so only the end is compared.
    let name = path.rsplit('/').next().unwrap_or_default();
    let expected = format!("/{name}>");
    if response.body.ends_with(expected.as_bytes()) {
        Ok(begun.elapsed())
    } else {
        Err("got another's answer".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_names_failures_and_the_slowest() {
        let mut tally = Tally::default();
        tally.note(Ok(Duration::from_millis(7)));
        tally.note(Err("timed out".to_owned()));
        let mut sum = Tally::default();
        sum.add(tally.clone());
        sum.add(tally);
        let text = "2 of 4 failed (2 timed out), p99 7 ms";
        assert_eq!(sum.to_string(), text);
    }
}
