//! Load while a server or an agent is killed with SIGKILL and comes back.
//!
//! Only requests in flight there may be lost. The agent reports their number, its RIF, just before.
//! Some milliseconds pass until the victim no longer listens, in which more requests arrive: at a
//! constant rate, at most rate × time + 1. Requests that a busy machine sends late may arrive all
//! at once; their number follows from the generator's lateness, at its 99th percentile. So the
//! bound is `RIF + rate × (time + lateness) + 1`. The test runs once with a page that takes no
//! time, and once with one that takes a tenth of a second, so that there are requests in flight to
//! lose.
//!
//! A replica is back when `serve` has a report of it by which it may be chosen, and nothing against
//! it. With the slow page it must also get requests. With the fast page it need not: if there are
//! never any requests in flight, Prequal compares only latency and may not choose it.

use super::load::{Load, RATE};
use super::{has_own_report, judge};
use crate::loopback::http::is_refused;
use crate::loopback::processes::wait_for;
use crate::peers::options::Options;
use crate::peers::site::{Site, about, probe};
use crate::report::Report;
use core::time::Duration;
use serde_json::Value;
use std::fs;
use std::time::Instant;

/// A tenth of a second: ten at a time at a limit of 100 KiB per second.
const SLOW: (&str, usize) = ("/slow/tenth", 20_000);

/// Timeout from the kill until the port is closed, until the agent reports it, or until a replica
/// has returned.
const NOTICE_MAX: Duration = Duration::from_secs(5);

/// Time from the kill until no more requests may be lost.
const LOSS_MAX: Duration = Duration::from_millis(500);

/// Requests that a replica must get after its return, if other replicas always have requests in
/// flight.
const SLOW_BACK: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Server,
    Agent,
}

pub(super) fn run(
    site: &mut Site<'_>,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let slow = site.www().join(SLOW.0.trim_start_matches('/'));
    fs::write(&slow, vec![b's'; SLOW.1]).map_err(about(&slow))?;
    let runs = [
        ("kill server", Victim::Server, 0, "/"),
        ("kill server, slow page", Victim::Server, 1, SLOW.0),
        ("kill agent", Victim::Agent, 2, "/"),
        ("kill agent, slow page", Victim::Agent, 0, SLOW.0),
    ];
    for (step, victim, index, path) in runs {
        let mut run = Run {
            site: &mut *site,
            victim,
            index,
            step,
        };
        run.through(path, options.seconds, report)?;
    }
    Ok(())
}

struct Run<'r, 'a> {
    site: &'r mut Site<'a>,
    victim: Victim,
    index: usize,
    step: &'static str,
}

impl Run<'_, '_> {
    fn through(&mut self, path: &str, seconds: u64, report: &mut Report) -> Result<(), String> {
        let load = Load::start(self.site, path, "constant", seconds)?;
        let third = Duration::from_secs(seconds) / 3;
        std::thread::sleep(third);

        let before = self.site.replica_status(self.index)?;
        let (rif, window) = self.kill()?;
        let killed_at = Instant::now();
        if self.victim == Victim::Server {
            report.add(
                self.step,
                "the agent reports draining",
                self.await_draining(killed_at),
            );
        }
        std::thread::sleep(LOSS_MAX.saturating_sub(killed_at.elapsed()));
        let lost_soon = lost(&self.site.status()?);
        std::thread::sleep(third.saturating_sub(killed_at.elapsed()));

        self.revive()?;
        let requests = if path == SLOW.0 { SLOW_BACK } else { 0 };
        let returned = self.await_return(requests);
        report.add(self.step, "started again, the replica returns", returned);
        let figures = load.finish()?;

        let late = figures.late();
        let span_us = u64::try_from((window + late).as_micros()).unwrap_or(u64::MAX);
        let arrived = span_us.saturating_mul(RATE) / 1_000_000;
        let bound = rif + arrived + 1;
        let after = self.site.replica_status(self.index)?;
        let numbers = format!(
            "{}; bound {bound} = RIF {rif} + {RATE}/s x ({:.1} + {:.1}) ms + 1; there: {}",
            figures.describe(),
            window.as_secs_f64() * 1e3,
            late.as_secs_f64() * 1e3,
            differences(&before["requests"], &after["requests"]),
        );
        let what = "errors at most what was in flight there";
        report.add(self.step, what, judge(figures.errors <= bound, numbers));
        let lost_late = lost(&self.site.status()?) - lost_soon;
        let what = format!("nothing lost later than {} ms", LOSS_MAX.as_millis());
        report.add(
            self.step,
            &what,
            judge(lost_late == 0, format!("{lost_late} lost")),
        );
        Ok(())
    }

    /// Kills the victim. Returns the RIF just before, and the time from then until nothing listened
    /// there.
    fn kill(&mut self) -> Result<(u64, Duration), String> {
        let pair = &mut self.site.pairs[self.index];
        let (process, address) = match self.victim {
            Victim::Server => (pair.server_process.take(), pair.server),
            Victim::Agent => (pair.agent_process.take(), pair.agent),
        };
        let asked_at = Instant::now();
        let (rif, _) = probe(pair.agent)?;
        drop(process);
        wait_for("the killed to be gone", NOTICE_MAX, || {
            Ok(is_refused(address).then_some(()))
        })?;
        Ok((rif, asked_at.elapsed()))
    }

    fn revive(&mut self) -> Result<(), String> {
        match self.victim {
            Victim::Server => self.site.start_server(self.index),
            Victim::Agent => self.site.start_agent(self.index),
        }
    }

    fn await_draining(&self, killed_at: Instant) -> Result<String, String> {
        let agent = self.site.pairs[self.index].agent;
        wait_for("the agent to say draining", NOTICE_MAX, || {
            Ok(probe(agent)?.1.then(|| {
                let after = killed_at.elapsed().as_secs_f64() * 1e3;
                format!("seen {after:.1} ms after the kill")
            }))
        })
    }

    fn await_return(&self, requests: u64) -> Result<String, String> {
        let begun = Instant::now();
        let sent_before = sent(&self.site.replica_status(self.index)?);
        wait_for("the replica to return", NOTICE_MAX, || {
            let status = self.site.status()?;
            let replica = &status["replicas"][self.index];
            let sent = sent(replica) - sent_before;
            let is_back = sent >= requests && has_own_report(&status, replica);
            Ok(is_back.then(|| {
                format!(
                    "after {} ms, with {sent} requests",
                    begun.elapsed().as_millis()
                )
            }))
        })
    }
}

fn sent(replica: &Value) -> u64 {
    replica["requests"]["sent"].as_u64().unwrap_or_default()
}

/// Failed attempts without a successful retry: what clients noticed.
fn lost(status: &Value) -> i64 {
    let replicas = status["replicas"].as_array().into_iter().flatten();
    let of_replicas: i64 = replicas
        .map(|replica| {
            let count = |name: &str| replica["requests"][name].as_i64().unwrap_or_default();
            let failed = ["responses_5xx", "connect_failures", "timeouts", "broken"];
            failed.into_iter().map(count).sum::<i64>() - count("retries")
        })
        .sum();
    of_replicas + status["counts"]["no_replica"].as_i64().unwrap_or_default()
}

/// The counts that have grown.
fn differences(before: &Value, after: &Value) -> String {
    let grown = after
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, count)| {
            let grown = count.as_u64()? - before[name].as_u64()?;
            (grown > 0).then(|| format!("{name} {grown}"))
        });
    grown.collect::<Vec<_>>().join(", ")
}
