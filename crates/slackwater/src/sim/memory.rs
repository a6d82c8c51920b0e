//! Checks, before anything is played, that the running simulations and the results that are kept
//! fit into the machine's memory.

use super::summary::counted;
use slackwater_config::Fault;
use slackwater_sim::Scenario;
use slackwater_sim::report::with_thousands;

/// Runs of the same scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) count: usize,
}

/// Returns how many of the runs, up to `threads`, may run at the same time in this much memory, in
/// bytes (`None`: unknown, no limit). Each result is kept, and once more when it is merged with
/// those of other seeds.
///
/// # Errors
/// Not even one run fits; `lower` names what to lower.
pub(super) fn at_once(
    runs: &[Runs<'_>],
    threads: usize,
    available: Option<f64>,
    lower: &str,
) -> Result<usize, Fault> {
    let need = Need::of(runs);
    let most = threads.min(need.runs());
    match available {
        Some(available) if need.bytes(most) > available => {
            let fitting = (1..most).rfind(|&fewer| need.bytes(fewer) <= available);
            fitting.ok_or_else(|| need.fault(1, available, lower))
        }
        _ => Ok(most),
    }
}

/// Like [`at_once`], but requires all `threads` at the same time.
///
/// # Errors
/// Fewer fit; the error states how many do.
pub(super) fn check(
    runs: &[Runs<'_>],
    threads: usize,
    available: Option<f64>,
    lower: &str,
) -> Result<(), Fault> {
    let need = Need::of(runs);
    let most = threads.min(need.runs());
    match (at_once(runs, threads, available, lower)?, available) {
        (fewer, Some(available)) if fewer < most => {
            Err(need.fault(most, available, &format!("use --threads {fewer}")))
        }
        _ => Ok(()),
    }
}

/// The memory that runs need.
struct Need<'s> {
    /// The largest runs come first.
    runs: Vec<Runs<'s>>,
    /// Memory of all results, in bytes.
    kept: f64,
}

impl<'s> Need<'s> {
    fn of(runs: &[Runs<'s>]) -> Self {
        let kept = |run: &Runs<'_>| 2.0 * run.scenario.kept_bytes() * run.count as f64;
        let kept = runs.iter().map(kept).sum();
        let mut runs = runs.to_vec();
        let bytes = |run: &Runs<'_>| run.scenario.memory_bytes();
        runs.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
        Self { runs, kept }
    }

    fn runs(&self) -> usize {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// Memory of the largest `at_once` runs, and of the results.
    fn bytes(&self, at_once: usize) -> f64 {
        let mut left = at_once;
        let under_way = self.runs.iter().map(|run| {
            let count = left.min(run.count);
            left -= count;
            run.scenario.memory_bytes() * count as f64
        });
        under_way.sum::<f64>() + self.kept
    }

    fn fault(&self, at_once: usize, available: f64, advice: &str) -> Fault {
        const GIB: f64 = 1_073_741_824.0;
        let largest = self.runs.first().map_or_else(String::new, |run| {
            format!(
                "; in the largest there are up to {} queries under way, {} and {}",
                with_thousands(&format!("{:.0}", run.scenario.under_way())),
                counted(run.scenario.load.clients.len(), "client"),
                counted(run.scenario.replicas(), "replica"),
            )
        });
        Fault::usage(format!(
            "{} at a time and the results of {} would take about {:.1} GiB of memory, and {:.1} GiB are free{largest}: {advice}",
            counted(at_once, "run"),
            with_thousands(&self.runs().to_string()),
            self.bytes(at_once) / GIB,
            available / GIB,
        ))
    }
}

/// Memory that is available without swapping, in bytes; `None` if the system does not report it.
pub(super) fn available() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    available_in(&text)
}

fn available_in(meminfo: &str) -> Option<f64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024.0)
}

/// What to lower, in a scenario file and in the arguments.
pub(super) const LOWER_ALL: &str = "lower load.rate, load.clients, deadline, --seconds, --seeds or the number of replicas, or give \
     the fleet more capacity";

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_sim::presets::{at_load, testbed};

    #[test]
    fn runs_too_large_for_all_threads_may_fit_fewer() {
        let scenario = at_load(1.74, testbed());
        let (one, kept) = (scenario.memory_bytes(), 2.0 * 8.0 * scenario.kept_bytes());
        let runs = [Runs {
            scenario: &scenario,
            count: 8,
        }];
        let check = |available| check(&runs, 4, available, LOWER_ALL);
        assert!(check(Some(4.0 * one + kept)).is_ok());
        assert!(check(None).is_ok());
        let told = |available| check(Some(available)).expect_err("too much").to_string();
        assert!(told(3.5 * one + kept).ends_with(": use --threads 3"));
        assert!(told(4.0 * one + 0.9 * kept).ends_with(": use --threads 3"));
        assert!(told(0.5 * one + kept).contains(": lower load.rate, load.clients, "));
    }

    #[test]
    fn memory_estimate_assumes_the_largest_runs_at_once() {
        let (small, large) = (at_load(0.5, testbed()), at_load(1.74, testbed()));
        let runs = [(&small, 3), (&large, 1)].map(|(scenario, count)| Runs { scenario, count });
        let kept = 2.0 * (3.0 * small.kept_bytes() + large.kept_bytes());
        let both = small.memory_bytes() + large.memory_bytes() + kept;
        let at_once = |threads, available| at_once(&runs, threads, Some(available), "").ok();
        assert_eq!(at_once(64, f64::INFINITY), Some(4));
        assert_eq!(at_once(2, both), Some(2));
        assert_eq!(at_once(2, 0.999 * both), Some(1));
        assert_eq!(
            at_once(2, large.memory_bytes()),
            None,
            "nothing for results"
        );
    }

    #[test]
    fn results_of_many_long_runs_need_memory_too() {
        let mut scenario = at_load(0.5, testbed());
        scenario.span = core::time::Duration::from_mins(10_000);
        let fits = |count| {
            let runs = Runs {
                scenario: &scenario,
                count,
            };
            check(&[runs], 1, Some(16e9), LOWER_ALL).is_ok()
        };
        // 480 MB each, and once more merged with others.
        assert!(fits(15) && !fits(20));
    }

    #[test]
    fn free_memory_is_read_from_the_system() {
        let meminfo = "MemTotal:       16303428 kB\nMemFree:  1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available_in(meminfo), Some(2_097_152.0));
        assert_eq!(available_in("MemFree: 1 kB\n"), None);
    }
}
