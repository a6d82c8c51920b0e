//! Overload at a replica: which queries start, wait, or are dropped, with time set by hand.

#![expect(clippy::expect_used, clippy::panic, reason = "tests and their helpers")]

mod admission;
mod limit;
mod model;
mod queue;

use core::time::Duration;
use slackwater_core::Instant;
use slackwater_core::overload::{Asks, Discipline, Priority, QueueConfig, QueueSettings};
use slackwater_core::policy::Settings;

const INTERACTIVE: Asks = asks(Priority::Interactive);
const BATCH: Asks = asks(Priority::Batch);
const SHADOW: Asks = asks(Priority::Shadow);

const fn asks(priority: Priority) -> Asks {
    Asks {
        priority,
        deadline: None,
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn config(change: impl FnOnce(&mut QueueSettings)) -> QueueConfig {
    let mut settings = QueueSettings::default();
    change(&mut settings);
    settings.validate().expect("in range")
}

fn of(discipline: Discipline) -> QueueConfig {
    config(|s| s.discipline = discipline)
}
