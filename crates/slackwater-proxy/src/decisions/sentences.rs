//! A decision in words.

use super::columns::{part, write_columns};
use super::decision::{Decision, Kept, Known, Report, Tried};
use crate::request_record::AttemptKind;
use core::fmt::{self, Write};
use core::time::Duration;
use slackwater_core::policy::{Outcome, PickReason, Unit};
use slackwater_telemetry::date::Date;

/// Number of excluded replicas that are named.
const OUTS_SHOWN: usize = 5;
/// A replica with this weight is picked once in each round of `weighted_round_robin`.
const WEIGHT_MAX: u32 = 65_535;

/// Describes a whole record, including the final newline.
pub(super) fn describe(decision: &Decision) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_decision(&mut text, decision);
    text
}

fn write_decision(to: &mut String, decision: &Decision) -> fmt::Result {
    write!(to, "{} ", Date::of(decision.time).rfc3339())?;
    write!(
        to,
        "{} {}",
        decision.method.escape_debug(),
        decision.path.escape_debug()
    )?;
    match (&decision.service, decision.policy) {
        (Some(service), Some(policy)) => write!(to, " for {service} ({policy})")?,
        _ => write!(to, " for no service")?,
    }
    match decision.status {
        0 => write!(to, ": no answer")?,
        status => write!(to, ": {status}")?,
    }
    if let Some(status) = decision.grpc_status {
        write!(to, ", gRPC status {status}")?;
    }
    write!(to, " after {}", span(decision.total))?;
    if decision.end != "complete" {
        write!(to, ", {}", decision.end.replace('_', " "))?;
    }
    if let Some(error) = &decision.error {
        write!(to, " ({})", error.escape_debug())?;
    }
    let kept = match decision.kept {
        Kept::Sampled => "drawn for the sample",
        Kept::Asked => "asked for",
        Kept::Failed => "failed",
        Kept::Slow => "slow",
    };
    writeln!(to, "; kept as {kept}; id {}", decision.id.escape_debug())?;
    if decision.attempts.is_empty() {
        writeln!(to, "  no replica received it")?;
    }
    for (place, attempt) in decision.attempts.iter().enumerate() {
        write_attempt(to, place + 1, attempt)?;
    }
    Ok(())
}

fn write_attempt(to: &mut String, number: usize, attempt: &Tried) -> fmt::Result {
    let what = match attempt.kind {
        AttemptKind::First => "first attempt",
        AttemptKind::Retry => "another attempt",
        AttemptKind::Hedge => "second copy, for the first was late",
        AttemptKind::Tie => "second copy, tied to the first",
        AttemptKind::Trial => "copy for a replica on trial",
    };
    write!(to, "  {number}. {what}")?;
    if let Some(due_after) = attempt.due_after {
        write!(to, " (due after {})", span(due_after))?;
    }
    writeln!(to, ", sent at {}", span(attempt.sent))?;
    let chosen = attempt.candidates.iter().find(|known| known.chosen);
    let part = chosen.map_or_else(String::new, part);
    write!(
        to,
        "     replica {}{part}: {}",
        attempt.replica,
        why(attempt)
    )?;
    if let Some(runner_up) = &attempt.runner_up {
        let tells_hot_from_cold = attempt.rif_limit.is_some();
        let runner_up = known(attempt, runner_up, tells_hot_from_cold);
        write!(to, "; runner-up {runner_up}")?;
    }
    if !attempt.probing.is_zero() {
        write!(to, "; probed replicas for {}", span(attempt.probing))?;
    }
    writeln!(to)?;
    if let Some(key) = &attempt.key {
        key.write(to)?;
    }
    write_columns(to, attempt)?;
    write_absent(to, attempt)?;
    write!(to, "     {}", became(attempt))?;
    if attempt.answered {
        write!(to, "; this is the answer that was passed on")?;
    }
    writeln!(to)
}

/// Describes why that replica was picked.
fn why(attempt: &Tried) -> String {
    let rule = attempt
        .rule
        .map_or_else(String::new, |rule| format!("; {}", by_rule(attempt, rule)));
    match attempt.reason {
        PickReason::Panic => format!("none may be chosen, so all may be{rule}"),
        PickReason::LastResort => format!(
            "it may not be chosen, but all that may be have had the request, and it is better than none{rule}"
        ),
        PickReason::Fallback => format!("fewer than two reports were of use{rule}"),
        PickReason::KeyHome => format!("it is the home of the key{rule}"),
        PickReason::KeySet => format!("the key's home is busy or out, and it is of the set{rule}"),
        PickReason::KeySpill => format!("all of the key's set are busy or out{rule}"),
        reason => by_rule(attempt, reason),
    }
}

fn by_rule(attempt: &Tried, rule: PickReason) -> String {
    let limit = attempt.rif_limit.map_or_else(
        || "no RIF limit".to_owned(),
        |limit| format!("RIF limit {limit}"),
    );
    let chosen = attempt.chosen.as_ref();
    let known = attempt.candidates.iter().find(|known| known.chosen);
    let figures = chosen.map_or_else(String::new, |report| {
        format!(" ({})", figures(report, known))
    });
    let looked_at = attempt.considered;
    let compared = known.and_then(|known| compared(attempt, known));
    let compared = compared.map_or_else(String::new, |compared| format!(" {compared}"));
    let value = |key| known.and_then(|known| known.factors.get(key));
    // In a panic, all replicas may be picked, so their number is left out.
    let among = match (attempt.reason, attempt.available) {
        (PickReason::Panic, _) => " among all".to_owned(),
        (PickReason::LastResort, _) => String::new(),
        (_, available) => format!(" among {available}"),
    };
    match rule {
        PickReason::Cold => {
            let cold = attempt.cold;
            format!("cold, lowest latency of {cold} cold{figures}; {limit}")
        }
        PickReason::Hot => format!("all {} hot, lowest RIF{figures}; {limit}", attempt.hot),
        PickReason::LowestScore => {
            let reports = attempt.cold + attempt.hot;
            let score = attempt.comparison.and_then(|it| it.0.decisive());
            let score = score.map_or("score", |score| score.name);
            format!("lowest {score}{compared} of {reports}{figures}")
        }
        PickReason::LowestCost => format!("lowest cost{compared} of {looked_at} drawn"),
        PickReason::LowestRif => match value("reported") {
            None => {
                format!(
                    "it has not reported and counts as the mean: lowest RIF of {looked_at} drawn"
                )
            }
            Some(rif) => format!("lowest RIF by its last report, {rif}, of {looked_at} drawn"),
        },
        PickReason::LeastLoaded => {
            let in_flight = known.map_or_else(String::new, |known| {
                format!(" ({} of ours)", known.in_flight)
            });
            format!("fewest requests in flight{in_flight} of {looked_at}")
        }
        PickReason::Weighted => {
            let chance = value("chance").map_or_else(String::new, |chance| {
                format!(" of {}%", (chance * 1e6).round() / 1e4)
            });
            format!("drawn, with a chance{chance} among {looked_at}")
        }
        PickReason::Turn => {
            let weight = value("weight").map_or_else(String::new, |weight| {
                format!(", which it has {weight} times in {WEIGHT_MAX} rounds")
            });
            format!("its turn{among}{weight}")
        }
        PickReason::Random => format!("drawn at random{among}"),
        PickReason::SoleAnswer => format!("the only one that answered{figures}"),
        PickReason::Pinned => "the request belongs there".to_owned(),
        PickReason::Room => "all were full, and it was the first to have room".to_owned(),
        PickReason::Trial => "it is ejected; this request is a trial".to_owned(),
        other => other.as_str().to_owned(),
    }
}

/// Returns the policy-specific value that was compared; lower is better.
fn compared(attempt: &Tried, known: &Known) -> Option<String> {
    let factor = attempt.comparison?.0.decisive()?;
    let us = known.factors.get(factor.key)?;
    (factor.unit == Unit::Microseconds).then(|| format!("{:.3} ms", us / 1e3))
}

/// Describes a report and, if the policy compares capacities, the capacity of the replica.
fn figures(report: &Report, known: Option<&Known>) -> String {
    let latency = report.latency.map_or_else(
        || "latency unknown".to_owned(),
        |latency| format!("latency {}", span(latency)),
    );
    let uses = match report.uses_left {
        Some(1) => ", its last use".to_owned(),
        Some(uses) => format!(", {uses} uses left"),
        None => String::new(),
    };
    let local = if report.local { ", our own count" } else { "" };
    let room = known.map_or_else(String::new, room);
    let (rif, age) = (report.rif, span(report.age));
    format!("{latency}, RIF {rif}{room}, {age} old{uses}{local}")
}

/// Describes the capacity, how much of it is in use, and the cost of a request.
fn room(known: &Known) -> String {
    let capacity = known
        .capacity_millirif
        .map_or_else(String::new, |millirif| {
            let in_use = known.in_use.unwrap_or_default() * 100.0;
            let carries = f64::from(millirif) / 1e3;
            format!(" of {carries:.1} that it can carry ({in_use:.0}% in use)")
        });
    let cost = known.cost.map_or_else(String::new, |cost| {
        format!(", a request costs {}", span(cost))
    });
    capacity + &cost
}

fn known(attempt: &Tried, known: &Known, tells_hot_from_cold: bool) -> String {
    let hot = |report: &Report| match (tells_hot_from_cold, report.hot) {
        (false, _) => "",
        (true, true) => "hot, ",
        (true, false) => "cold, ",
    };
    let figures = known.report.as_ref().map_or_else(
        || format!("{} of ours in flight", known.in_flight),
        |report| format!("{}{}", hot(report), figures(report, Some(known))),
    );
    let compared = match (compared(attempt, known), known.factors.get("reported")) {
        (None, Some(rif)) => format!("RIF {rif} by its last report, "),
        (Some(compared), _) => format!("{compared}, "),
        (None, None) => String::new(),
    };
    format!("{}{} ({compared}{figures})", known.replica, part(known))
}

fn write_absent(to: &mut String, attempt: &Tried) -> fmt::Result {
    if attempt.out == 0 {
        return Ok(());
    }
    let shown = attempt.outs.iter().take(OUTS_SHOWN).map(|absent| {
        let why = &absent.why;
        let parts = absent.parts.filter(|parts| *parts > 1);
        let parts = parts.map_or_else(String::new, |parts| format!(", {parts} parts"));
        if absent.share > 0.0 {
            let share = absent.share * 100.0;
            format!(
                "{} ({why}, {share:.0}% of its share{parts})",
                absent.replica
            )
        } else {
            format!("{} ({why}{parts})", absent.replica)
        }
    });
    let shown: Vec<_> = shown.collect();
    let told = attempt.outs.iter().take(OUTS_SHOWN);
    let told: usize = told.map(|absent| absent.parts.unwrap_or(1)).sum();
    let more = (attempt.out as usize).saturating_sub(told);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    writeln!(
        to,
        "     not available or limited: {}{more}",
        shown.join(", ")
    )
}

/// Describes how the attempt ended.
fn became(attempt: &Tried) -> String {
    let head = match (attempt.status, attempt.head) {
        (Some(status), Some(head)) => format!("{status} at {}", span(head)),
        _ => "no response".to_owned(),
    };
    match (attempt.outcome, attempt.end) {
        (Some(outcome), Some(end)) => {
            let outcome = match outcome {
                Outcome::Dropped => "given up".to_owned(),
                other => other.as_str().replace('_', " "),
            };
            let cause = attempt.cause.as_ref().map_or_else(String::new, |cause| {
                // A cause may begin with the outcome, which stands there already.
                let rest = cause.strip_prefix(outcome.as_str());
                let rest = rest.and_then(|rest| rest.strip_prefix(": "));
                format!(" ({})", rest.unwrap_or(cause).escape_debug())
            });
            format!("{head}; {outcome}{cause} at {}", span(end))
        }
        _ => format!("{head}; not over yet"),
    }
}

/// Formats a duration with three digits and a unit.
fn span(span: Duration) -> String {
    let us = span.as_secs_f64() * 1e6;
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests;
