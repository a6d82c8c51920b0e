//! The memory that the runs under way will take, held against what the machine has, before anything is played.

use super::summary::counted;
use crate::fault::Fault;
use slackwater_sim::Scenario;
use slackwater_sim::report::with_thousands;

/// Says what to change if `at_once` runs of the scenario would not fit.
pub(super) fn check(scenario: &Scenario, at_once: usize) -> Result<(), Fault> {
    check_against(scenario, at_once, available_bytes())
}

fn check_against(scenario: &Scenario, at_once: usize, available: Option<f64>) -> Result<(), Fault> {
    const GIB: f64 = 1_073_741_824.0;
    let one = scenario.memory_bytes();
    let needed = one * at_once as f64;
    let Some(available) = available.filter(|available| needed > *available) else {
        return Ok(());
    };
    let threads = if at_once > 1 && one <= available {
        format!(
            "use --threads {:.0}",
            (available / one).floor().clamp(1.0, at_once as f64)
        )
    } else {
        "lower load.rate, load.clients, deadline, --seconds or the number of replicas, or give the fleet more capacity".to_owned()
    };
    Err(Fault::usage(format!(
        "{} at a time would take about {:.1} GiB of memory, and {:.1} GiB are free; in each there are up to {} queries under way, \
         {} and {}: {threads}",
        counted(at_once, "run"),
        needed / GIB,
        available / GIB,
        with_thousands(&format!("{:.0}", scenario.under_way())),
        counted(scenario.load.clients.len(), "client"),
        counted(scenario.replicas(), "replica"),
    )))
}

/// What can be had without swapping; `None` where the system does not say.
fn available_bytes() -> Option<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_sim::presets::{at_load, testbed};

    #[test]
    fn runs_that_do_not_fit_at_once_may_fit_one_by_one() {
        let scenario = at_load(1.74, testbed());
        let one = scenario.memory_bytes();
        assert!(check_against(&scenario, 4, Some(4.0 * one)).is_ok());
        assert!(check_against(&scenario, 4, None).is_ok());
        let told = |available| {
            check_against(&scenario, 4, Some(available))
                .expect_err("too much")
                .to_string()
        };
        assert!(told(3.5 * one).ends_with(": use --threads 3"));
        assert!(told(0.5 * one).contains(": lower load.rate, load.clients, "));
    }

    #[test]
    fn what_is_free_is_read_off_the_system_s_figures() {
        let meminfo = "MemTotal:       16303428 kB\nMemFree:  1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available_in(meminfo), Some(2_097_152.0));
        assert_eq!(available_in("MemFree: 1 kB\n"), None);
    }
}
