//! What the log says of who is out, who is back, and by what figures: a line for each change, as this worker judges.
//!
//! It is looked at once a second, so that no replica has more lines than that, and with a bound on them all. While all
//! replicas are sound and nothing has happened a look is a comparison of counts.

use super::WorkerFleet;
use core::cell::{Cell, RefCell};
use core::time::Duration;
use slackwater_core::health::{HealthCounters, HealthState, HealthView};
use slackwater_tower::client::Balancer;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Of a look; of further changes it is said how many there are.
const LINES_MAX: usize = 10;

/// Where replicas stood at the last look.
#[derive(Debug)]
pub(crate) struct Standings {
    worker: u16,
    next_at: Cell<Instant>,
    counters: Cell<HealthCounters>,
    /// Of those that were not sound, by their names.
    unsound: RefCell<BTreeMap<Box<str>, HealthState>>,
}

/// One replica, and the middle ones of all.
struct Found<'f> {
    service: &'f str,
    worker: u16,
    replica: &'f str,
    view: HealthView,
    middle_success: u32,
    middle_latency: Option<Duration>,
}

impl Standings {
    pub(crate) fn new(worker: u16) -> Self {
        Self {
            worker,
            next_at: Cell::new(Instant::now()),
            counters: Cell::default(),
            unsound: RefCell::default(),
        }
    }

    /// Logs what has changed since the last look, once in a while.
    pub(crate) fn look(&self, service: &str, balancer: &Balancer, fleet: &WorkerFleet) {
        let now = Instant::now();
        if now < self.next_at.get() {
            return;
        }
        self.next_at.set(now + INTERVAL);
        let counters = balancer.counters().health;
        let has_happened = self.counters.replace(counters) != counters;
        if !has_happened && self.unsound.borrow().is_empty() {
            return;
        }
        let views = balancer.snapshot().health;
        let (middle_success, middle_latency) = (
            median(views.iter().map(|view| view.success_millionths)).unwrap_or_default(),
            median(views.iter().filter_map(|view| view.latency)),
        );
        let mut unsound = BTreeMap::new();
        let mut changes = 0_usize;
        for replica in fleet.all() {
            // Of several parts the one that stands worst.
            let parts = views
                .iter()
                .filter(|it| replica.parts.contains(&it.replica));
            let Some(view) = parts.max_by_key(|view| view.state) else {
                continue;
            };
            let state = logged_state(view.state);
            let name = replica.config.name.as_str();
            let before = self.unsound.borrow().get(name).copied();
            if state != before.unwrap_or(HealthState::Sound) {
                changes += 1;
                if changes <= LINES_MAX {
                    Found {
                        service,
                        worker: self.worker,
                        replica: name,
                        view: *view,
                        middle_success,
                        middle_latency,
                    }
                    .log(state);
                }
            }
            if state != HealthState::Sound {
                unsound.insert(name.into(), state);
            }
        }
        if changes > LINES_MAX {
            let more = changes - LINES_MAX;
            let worker = self.worker;
            tracing::warn!(
                service,
                worker,
                more,
                "more replicas stand otherwise than before"
            );
        }
        self.unsound.replace(unsound);
    }
}

/// A push-back lasts for moments, and is in the metrics.
const fn logged_state(state: HealthState) -> HealthState {
    match state {
        HealthState::PushingBack => HealthState::Sound,
        state => state,
    }
}

fn median<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// A share of one.
fn part(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

/// A line at that level; the level has to be there when this is compiled.
macro_rules! line {
    ($level:ident, $found:expr, $text:expr) => {
        tracing::$level!(
            service = $found.service,
            replica = $found.replica,
            worker = $found.worker,
            state = $found.view.state.as_str(),
            share = part($found.view.share_millionths),
            success = part($found.view.success_millionths),
            middle_success = part($found.middle_success),
            latency = ?$found.view.latency.unwrap_or_default(),
            middle_latency = ?$found.middle_latency.unwrap_or_default(),
            "{}",
            $text
        )
    };
}

impl Found<'_> {
    fn log(&self, state: HealthState) {
        match state {
            HealthState::Ejected => line!(warn, self, "is out, for its failures"),
            HealthState::OnProbation => line!(warn, self, "is out, for being slow or silent"),
            HealthState::HeldBack => {
                line!(warn, self, "fails, and gets what others have no room for");
            }
            HealthState::Returning => line!(info, self, "is back, with a part of its share"),
            HealthState::WarmingUp => line!(info, self, "is new, and has to show what it can"),
            _ => line!(info, self, "has its whole share"),
        }
    }
}
