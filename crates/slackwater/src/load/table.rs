//! The table at the end of a run: a [`Summary`] for people.

use super::summary::Summary;
use core::fmt::{self, Display, Formatter};

/// Lateness of the generator itself, at p99, from which the table shows a warning.
const SENT_LATE_WARNING_MS: f64 = 2.0;

impl Display for Summary {
    /// Writes the table at the end of a run, without a last line break.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "target       {} over {}", self.target, self.protocol)?;
        write!(
            f,
            "load         {} requests/s, {}",
            self.rate, self.arrivals
        )?;
        write!(f, ", seed {}, for {:.1} s", self.seed, self.seconds)?;
        if self.warmup_seconds > 0.0 {
            write!(f, " after {:.1} s of warm-up", self.warmup_seconds)?;
        }
        writeln!(
            f,
            "{}",
            if self.interrupted {
                " (interrupted)"
            } else {
                ""
            }
        )?;
        write!(f, "requests     {}", self.requests)?;
        writeln!(f, " ({:.1}/s answered without error)", self.achieved_rate)?;
        self.fmt_errors(f)?;
        self.fmt_statuses(f)?;
        self.fmt_latencies(f)?;
        let late = &self.sent_late;
        write!(
            f,
            "sent late    p50 {:.3} ms, p99 {:.3} ms",
            late.p50_ms, late.p99_ms
        )?;
        writeln!(f, ", max {:.3} ms", late.max_ms)?;
        write!(f, "connections  {} opened; ", self.connections_opened)?;
        write!(f, "{} requests waited for one", self.waited_for_connection)?;
        if self.waited_for_connection == 0 && late.p99_ms > SENT_LATE_WARNING_MS {
            write!(
                f,
                "\nThe generator itself was late: it needs more of a processor than it got."
            )?;
        }
        Ok(())
    }
}

impl Summary {
    fn fmt_errors(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let share = self.errors as f64 / self.requests.max(1) as f64;
        writeln!(f, "errors       {} ({:.2} %)", self.errors, share * 100.0)?;
        for (kind, count) in self.errors_by_kind.seen() {
            let first = self.first_failures.get(kind).map_or("", String::as_str);
            writeln!(f, "  {kind:<10} {count} (first: {first})")?;
        }
        if self.unfinished > 0 {
            writeln!(f, "unfinished   {}, in no other figure", self.unfinished)?;
        }
        Ok(())
    }

    fn fmt_statuses(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seen = self.statuses.seen();
        let seen: Vec<_> = seen
            .map(|(class, count)| format!("{class} {count}"))
            .collect();
        writeln!(
            f,
            "answers      {}",
            if seen.is_empty() {
                "none".into()
            } else {
                seen.join(", ")
            }
        )
    }

    fn fmt_latencies(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "latency                all    without errors")?;
        let (all, good) = (&self.latency, &self.without_errors);
        for (name, all, good) in [
            ("p50", all.p50_ms, good.p50_ms),
            ("p90", all.p90_ms, good.p90_ms),
            ("p99", all.p99_ms, good.p99_ms),
            ("p99.9", all.p999_ms, good.p999_ms),
            ("mean", all.mean_ms, good.mean_ms),
            ("max", all.max_ms, good.max_ms),
        ] {
            writeln!(f, "  {name:<6} {all:>14.2} ms {good:>14.2} ms")?;
        }
        Ok(())
    }
}
