//! The progress of the work: a bar with the time left, or plain lines if standard error is not a
//! terminal.

use super::summary::counted;
use core::time::Duration;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use slackwater_sim::report::with_thousands;
use slackwater_sim::runner::Progress;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Steps of the bar.
const STEPS: f64 = 1_000.0;
/// Redraw interval of the bar when nothing has changed, to show that it is alive.
const TICK: Duration = Duration::from_millis(200);
/// First estimate of what one thread plays per second: six to eight events per query, on a core of
/// 2024 that is shared with other work.
const QUERIES_PER_SECOND: f64 = 500_000.0;
/// Interval between two lines, if there is no bar.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// The progress of one piece of work.
#[derive(Debug)]
pub(super) struct Meter {
    /// The name of the work.
    name: String,
    bar: Option<ProgressBar>,
    start: Instant,
    /// When a line was last written.
    line: Mutex<Instant>,
}

impl Meter {
    pub(super) fn new(name: impl Into<String>) -> Self {
        let start = Instant::now();
        Self {
            name: name.into(),
            bar: io::stderr().is_terminal().then(bar),
            start,
            line: Mutex::new(start),
        }
    }

    /// Shows the amount of work before the first run ends. `queries` is the total of all runs.
    pub(super) fn begin(&self, runs: usize, queries: f64, threads: usize) {
        let seconds = queries / QUERIES_PER_SECOND / threads.clamp(1, runs.max(1)) as f64;
        let text = format!(
            "{}: {}, {} queries, about {}",
            self.name,
            counted(runs, "run"),
            with_thousands(&format!("{queries:.0}")),
            time(seconds)
        );
        match &self.bar {
            Some(bar) => {
                bar.set_message(text);
                bar.enable_steady_tick(TICK);
            }
            None if seconds > LINE_PERIOD.as_secs_f64() => {
                let _ = writeln!(io::stderr(), "{text}");
            }
            None => {}
        }
    }

    /// The time since the work began.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Shows the progress of the runs.
    pub(super) fn show(&self, progress: Progress) {
        let Progress { done, total, share } = progress;
        let left = time_left(self.elapsed(), share);
        match &self.bar {
            Some(bar) => {
                bar.set_position(steps(share));
                bar.set_message(format!("{}: {done} of {total} runs, {left}", self.name));
            }
            None => self.line(&format!(
                "{}: {:.0} %, {done} of {total} runs, {left}",
                self.name,
                share * 100.0
            )),
        }
    }

    /// Shows the progress of a try, when the number of tries is unknown.
    pub(super) fn try_out(&self, what: &str, progress: Progress) {
        let Progress { done, total, share } = progress;
        let text = format!("{}: {what}: {done} of {total} runs", self.name);
        match &self.bar {
            Some(bar) => {
                bar.set_position(steps(share));
                bar.set_message(text);
            }
            None => self.line(&text),
        }
    }

    fn line(&self, text: &str) {
        let mut last = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if last.elapsed() >= LINE_PERIOD {
            *last = Instant::now();
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the steps, and a float's conversion saturates"
)]
fn steps(share: f64) -> u64 {
    (share * STEPS) as u64
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::stderr());
    // With an unusable template, indicatif's own bar stays.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:24} {percent:>3}%  {wide_msg}")
    {
        bar.set_style(style);
    }
    bar
}

fn time_left(elapsed: Duration, share: f64) -> String {
    let seconds = elapsed.as_secs_f64() * (1.0 - share) / share;
    if !seconds.is_finite() {
        return "time left unknown".to_owned();
    }
    format!("{} left", time(seconds))
}

/// `40 s`, `5 min`, `3.5 h`.
fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1.0 => "1 s".to_owned(),
        _ if seconds < 100.0 => format!("{seconds:.0} s"),
        _ if seconds < 6_000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_extrapolated_from_progress() {
        let minute = Duration::from_mins(1);
        assert_eq!(time_left(minute, 0.5), "60 s left");
        assert_eq!(time_left(minute, 0.1), "9 min left");
        assert_eq!(time_left(minute, 0.01), "99 min left");
        assert_eq!(time_left(minute, 0.005), "3.3 h left");
        assert_eq!(time_left(minute, 1.0), "1 s left");
        assert_eq!(time_left(minute, 0.0), "time left unknown");
    }
}
