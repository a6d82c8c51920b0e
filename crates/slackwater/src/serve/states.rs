//! The log of what happens to replicas and services, merged over workers: a line for each first
//! failure, for each change of a replica's state, and when all replicas of a service fail. Replicas
//! that become unprobed share a line.

use crate::log::Rounded;
use core::time::Duration;
use slackwater_proxy::Workers;
use slackwater_telemetry::replica_state::ReplicaState;
use slackwater_telemetry::state_tracker::{FirstFailure, News, ServiceChange, StateChange};
use std::collections::BTreeMap;
use std::sync::Weak;

/// Polling interval. Changes that are undone within it are not worth a line.
const PERIOD: Duration = Duration::from_secs(1);
/// The most lines of one service in one interval; of further ones only the number is logged.
const LINES_MAX: usize = 10;

/// The most names in a line that replicas share.
const NAMES_MAX: usize = 3;

/// Logs changes until the workers are gone.
pub(super) async fn watch(workers: Weak<Workers>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(workers) = workers.upgrade() else {
            return;
        };
        log(&workers.state_news());
    }
}

fn log(news: &News) {
    // The most important lines come first, and are never left out.
    for change in &news.services {
        log_service(change);
    }
    let more_failures = "more replicas gave no response";
    log_some(&news.failures, |it| &it.service, log_failure, more_failures);
    let more_changes = "more replicas changed their state";
    log_some(&news.changes, |it| &it.service, log_change, more_changes);
    let mut services = BTreeMap::<&str, Vec<&StateChange>>::new();
    for change in &news.unprobed {
        services.entry(&change.service).or_default().push(change);
    }
    for (service, changes) in services {
        log_unprobed(service, &changes);
    }
}

/// One line for all of a service: at the start they may be all that it has.
fn log_unprobed(service: &str, changes: &[&StateChange]) {
    let Some(first) = changes.first() else { return };
    let names = changes.iter().map(|it| &*it.replica).take(NAMES_MAX);
    let mut names = names.collect::<Vec<_>>().join(", ");
    if changes.len() > NAMES_MAX {
        names += ", …";
    }
    tracing::info!(
        service,
        replicas = changes.len(),
        names,
        remedy = first.standing.why.remedy(),
        "replicas unprobed: {}",
        first.standing.why,
    );
}

/// Logs up to [`LINES_MAX`] lines of each service, and the number of the rest.
fn log_some<T>(news: &[T], service: fn(&T) -> &str, log: impl Fn(&T), rest: &str) {
    let mut counts = BTreeMap::<&str, usize>::new();
    for it in news {
        let count = counts.entry(service(it)).or_default();
        *count += 1;
        if *count <= LINES_MAX {
            log(it);
        }
    }
    for (service, count) in counts {
        if count > LINES_MAX {
            let more = count - LINES_MAX;
            tracing::warn!(service, more, "{rest}");
        }
    }
}

fn log_service(change: &ServiceChange) {
    let (service, standing) = (&change.service, &change.standing);
    if standing.all_fail {
        tracing::warn!(
            service,
            replicas = standing.wanted,
            remedy = standing.remedy,
            "all replicas fail: {}; requests are still sent to them",
            standing.why,
        );
    } else if standing.wanted == 0 {
        tracing::warn!(
            service,
            remedy = "give a replica a weight above 0, or end its drain",
            "no replica is left that should take requests",
        );
    } else {
        tracing::info!(
            service,
            taking = standing.taking,
            replicas = standing.wanted,
            after = change.lasted.map(Rounded).map(tracing::field::display),
            "replicas respond again",
        );
    }
}

fn log_failure(failure: &FirstFailure) {
    let last = &failure.last;
    tracing::warn!(
        service = failure.service,
        replica = failure.replica,
        address = failure.address,
        error = last.error,
        remedy = last.kind.remedy(),
        "no response from replica: {}",
        last.kind.as_str(),
    );
}

/// Logs a line at this level. `tracing` needs the level at compile time.
macro_rules! line {
    ($level:ident, $change:expr, $($field:tt)*) => {{
        let change: &StateChange = $change;
        let (standing, health) = (&change.standing, change.standing.signs.health.as_ref());
        let (state, why) = (standing.state, standing.why().unwrap_or_default());
        let failing = standing.signs.failing.as_ref();
        tracing::$level!(
            service = change.service,
            replica = change.replica,
            address = change.address,
            from = change.from.map_or("new", ReplicaState::as_str),
            to = state.as_str(),
            why,
            failed_in_a_row = failing.map(|failing| failing.in_a_row),
            error = failing.map(|failing| &*failing.last.error),
            share_percent = standing.share_percent(),
            success = health.map(|health| part(health.success_millionths)),
            median_success = health.map(|health| part(health.median_success_millionths)),
            latency = health.and_then(|health| health.latency).map(Rounded).map(tracing::field::display),
            median_latency = health.and_then(|health| health.median_latency).map(Rounded).map(tracing::field::display),
            $($field)*
            "replica {}{}{why}",
            what(change),
            if why.is_empty() { "" } else { ": " },
        );
    }};
}

/// A share of one.
fn part(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

/// Whether a replica that was down responds again and is on trial, which is better than before.
fn is_on_trial(change: &StateChange) -> bool {
    let (from, to) = (change.from, change.standing.state);
    from == Some(ReplicaState::Down) && to == ReplicaState::Ejected
}

/// What happened to the replica.
fn what(change: &StateChange) -> &'static str {
    if is_on_trial(change) {
        "responds again, still ejected"
    } else {
        change.standing.state.as_str()
    }
}

fn log_change(change: &StateChange) {
    if change.standing.state.is_alarming() && !is_on_trial(change) {
        line!(warn, change, remedy = change.standing.why.remedy(),);
    } else {
        line!(info, change,);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_telemetry::replica_state::Standing;

    #[test]
    fn one_that_was_down_and_is_still_ejected_is_no_new_ejection() {
        let what = |from, state| {
            what(&StateChange {
                service: String::new(),
                replica: String::new(),
                address: String::new(),
                from,
                standing: Standing {
                    state,
                    ..Standing::default()
                },
            })
        };
        let (down, ejected) = (ReplicaState::Down, ReplicaState::Ejected);
        assert_eq!(what(Some(down), ejected), "responds again, still ejected");
        assert_eq!(what(Some(ReplicaState::Available), ejected), "ejected");
        assert_eq!(what(Some(ejected), down), "down");
        assert_eq!(what(None, ejected), "ejected");
    }
}
