//! Compares the results of a run with the promises.

use super::fleet::Fleet;
use super::schedule::{Happened, Played};
use crate::loopback::access_log::Line;
use crate::loopback::processes::wait_for;
use crate::report::Report;
use core::fmt::Write as _;
use core::time::Duration;

/// Time from the end of the load until nothing is in flight.
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// The connections of a killed process do not end in the same instant.
const MARGIN: Duration = Duration::from_millis(100);

/// Growth of memory that is allowed in the second half of a generation's life, in bytes; the next
/// constant: in twentieths of the first half's maximum.
const GROWTH_BYTES: u64 = 4 << 20;
const GROWTH_TWENTIETHS: u64 = 2;

/// Checks every promise.
pub(super) fn judge(fleet: &mut Fleet<'_>, played: &Played, report: &mut Report) {
    report.add("run", "what happened", Ok(describe(played)));
    report.add("end", "nothing is left in flight", settle(fleet));
    report.add("end", "old generations ended by themselves", {
        let ended = fleet.serve.await_predecessors();
        ended.map(|()| format!("{} generations", fleet.serve.generations() - 1))
    });
    // Done before the access log is read, because `serve` writes its last lines at its end at the
    // latest.
    report.add("end", "the last generation ends when it is stopped", {
        let ended = fleet.serve.stop();
        ended.map(|()| "after SIGTERM".to_owned())
    });
    report.add(
        "run",
        "no request failed without cause",
        losses(fleet, played),
    );
    report.add("run", "memory is flat", memory(&played.resident_bytes));
}

fn describe(played: &Played) -> String {
    let mut text = String::new();
    let mut kinds: Vec<_> = played
        .faults
        .iter()
        .map(|happened| happened.fault.as_str())
        .collect();
    kinds.sort_unstable();
    for group in kinds.chunk_by(|one, other| one == other) {
        let _ = write!(text, "{} {}×, ", group[0], group.len());
    }
    let _ = write!(
        text,
        "upgraded {}×, configuration changed {}×, certificates replaced {}×",
        played.upgrades, played.reloads, played.certificates
    );
    text
}

/// Waits until neither `serve` nor an agent has a request in flight.
fn settle(fleet: &Fleet<'_>) -> Result<String, String> {
    let serve = || -> Result<u64, String> {
        let status = fleet.serve.status()?;
        let replicas = status["replicas"].as_array().into_iter().flatten();
        Ok(replicas
            .filter_map(|replica| replica["in_flight"].as_u64())
            .sum())
    };
    let mut last = (0, 0);
    wait_for("nothing to be in flight", SETTLE_MAX, || {
        last = (serve()?, fleet.rif()?);
        Ok((last == (0, 0)).then_some(()))
    })
    .map_err(|waited| format!("{waited}: serve {}, agents {}", last.0, last.1))?;
    Ok("serve 0, agents 0".to_owned())
}

/// Every failure in the access log must be caused by a fault, and every failure that a client saw
/// must be in the access log.
fn losses(fleet: &Fleet<'_>, played: &Played) -> Result<String, String> {
    let lines = fleet.lines()?;
    let agents: Vec<_> = fleet
        .pairs
        .iter()
        .map(|pair| pair.agent.to_string())
        .collect();
    let failed: Vec<_> = lines.iter().filter(|line| line.is_failure()).collect();
    let (excused, others): (Vec<&Line>, Vec<&Line>) =
        (failed.iter()).partition(|line| is_excused(line, &agents, &played.faults));
    let requests: u64 = played.seen.iter().map(|seen| seen.requests).sum();
    let errors: u64 = played.seen.iter().map(|seen| seen.errors).sum();
    let again = lines.iter().filter(|line| line.attempts > 1).count();
    let mut text = format!(
        "{requests} requests, {errors} errors seen by clients; in the access log {} lines, {again} tried more than once, \
         {} lost on a replica that was killed or stopped, {} without cause",
        lines.len(),
        excused.len(),
        others.len()
    );
    let failed = u64::try_from(failed.len()).unwrap_or(u64::MAX);
    let sent = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    if others.is_empty() && errors <= failed && sent >= requests.saturating_sub(errors) {
        return Ok(text);
    }
    for seen in &played.seen {
        let _ = write!(text, "; {}", seen.words);
    }
    for line in others.iter().take(5) {
        let _ = write!(text, "; {}", line.text);
    }
    Err(text)
}

fn is_excused(line: &Line, agents: &[String], faults: &[Happened]) -> bool {
    let Some(replica) = &line.replica else {
        return false;
    };
    let Some(pair) = agents.iter().position(|agent| agent == replica) else {
        return false;
    };
    let (began, ended) = (line.began.saturating_sub(MARGIN), line.ended + MARGIN);
    faults.iter().any(|fault| fault.excuses(pair, began, ended))
}

/// In the life of each generation the maximum in use must not keep growing.
fn memory(generations: &[Vec<u64>]) -> Result<String, String> {
    let mut text = String::new();
    let mut is_flat = true;
    for samples in generations {
        let (first, second) = samples.split_at(samples.len() / 2);
        let most = |half: &[u64]| half.iter().copied().max().unwrap_or_default();
        let (before, after) = (most(first), most(second));
        is_flat &= after <= before + GROWTH_BYTES + before * GROWTH_TWENTIETHS / 20;
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(
            text,
            "{separator}{:.1} then {:.1} MiB",
            mib(before),
            mib(after)
        );
    }
    if is_flat && !generations.is_empty() {
        Ok(text)
    } else {
        Err(text)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Fault;
    use super::*;

    #[test]
    fn steadily_growing_memory_is_not_flat() {
        const MIB: u64 = 1 << 20;
        assert!(memory(&[vec![10 * MIB, 20 * MIB, 20 * MIB, 25 * MIB]]).is_ok());
        assert!(
            memory(&[
                vec![20 * MIB; 4],
                vec![20 * MIB, 20 * MIB, 20 * MIB, 27 * MIB]
            ])
            .is_err()
        );
        assert!(memory(&[]).is_err());
    }

    #[test]
    fn failure_is_excused_only_by_a_fault_of_its_replica() {
        let at = Duration::from_secs;
        let line = |replica: Option<&str>| Line {
            began: at(9),
            ended: at(11),
            replica: replica.map(str::to_owned),
            status: 502,
            end: "complete".to_owned(),
            attempts: 1,
            text: String::new(),
        };
        let faults = [Happened {
            fault: Fault::KillAgent,
            pair: 1,
            from: at(10),
            to: at(10),
        }];
        let agents = ["a".to_owned(), "b".to_owned()];
        assert!(is_excused(&line(Some("b")), &agents, &faults));
        assert!(!is_excused(&line(Some("a")), &agents, &faults));
        assert!(!is_excused(&line(Some("c")), &agents, &faults));
        assert!(
            !is_excused(&line(None), &agents, &faults),
            "no replica had it"
        );
        assert!(!is_excused(&line(Some("b")), &agents, &[]));
    }
}
