//! The log of replicas' states: one line for each change, merged over workers.

use core::time::Duration;
use slackwater_proxy::Workers;
use slackwater_telemetry::replica_state::ReplicaState;
use slackwater_telemetry::state_tracker::StateChange;
use std::collections::BTreeMap;
use std::sync::Weak;

/// Polling interval. What comes and goes in between is not worth a line.
const PERIOD: Duration = Duration::from_secs(1);
/// The most lines of one service in one interval; of further changes only the number is logged.
const LINES_MAX: usize = 10;

/// Logs changes until the workers are gone.
pub(super) async fn watch(workers: Weak<Workers>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(workers) = workers.upgrade() else {
            return;
        };
        log(&workers.state_changes());
    }
}

fn log(changes: &[StateChange]) {
    let mut counts = BTreeMap::<&str, usize>::new();
    for change in changes {
        let count = counts.entry(&change.service).or_default();
        *count += 1;
        if *count <= LINES_MAX {
            log_one(change);
        }
    }
    for (service, count) in counts {
        if count > LINES_MAX {
            let more = count - LINES_MAX;
            tracing::warn!(service, more, "more replicas changed their state");
        }
    }
}

/// A line at that level; the level has to be there when this is compiled.
macro_rules! line {
    ($level:ident, $change:expr, $($field:tt)*) => {{
        let change: &StateChange = $change;
        let (standing, health) = (&change.standing, change.standing.signs.health.as_ref());
        let (state, why) = (standing.state, standing.why().unwrap_or_default());
        tracing::$level!(
            service = change.service,
            replica = change.replica,
            from = change.from.map_or("new", ReplicaState::as_str),
            to = state.as_str(),
            why,
            share_percent = standing.share_percent(),
            success = health.map(|health| part(health.success_millionths)),
            median_success = health.map(|health| part(health.median_success_millionths)),
            latency = health.and_then(|health| health.latency).map(debug),
            median_latency = health.and_then(|health| health.median_latency).map(debug),
            $($field)*
            "replica {state}{}{why}",
            if why.is_empty() { "" } else { ": " },
        );
    }};
}

/// A share of one.
fn part(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

fn log_one(change: &StateChange) {
    if change.standing.state.is_alarming() {
        line!(warn, change, remedy = change.standing.why.remedy(),);
    } else {
        line!(info, change,);
    }
}
