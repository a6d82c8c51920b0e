//! The tables `[[event]]`: changes of a replica at a given time.

use super::keys::{Kind, decimal, kind, needed_count, needed_span, span};
use core::time::Duration;
use slackwater_config::toml_reader::Reader;
use slackwater_sim::scenario::{Change, Event};

const CHANGES: &[Kind] = &[
    ("crash", &["known_after"]),
    ("drain", &["leaves_after"]),
    ("join", &["cold_slowness", "warm_after"]),
    ("restart", &["down_for", "cold_slowness", "warm_after"]),
    ("suspend", &["suspended_for"]),
];

/// Default time until clients notice a crash.
const KNOWN_AFTER: Duration = Duration::from_secs(1);

pub(super) fn read_events(reader: &mut Reader<'_>) -> Vec<Event> {
    let events = reader.count_tables("event");
    let events = (0..events).map(|number| read_event(reader, &format!("event[{number}]")));
    events.collect()
}

fn read_event(reader: &mut Reader<'_>, event: &str) -> Event {
    let key = |name: &str| format!("{event}.{name}");
    let at = needed_span(reader, &key("at"), true);
    let replica = needed_count(reader, &key("replica"), true);
    let change = kind(reader, event, "change", None, CHANGES);
    let change = match change {
        Some("drain") => Change::Drain {
            leaves_after: span(reader, &key("leaves_after"), Duration::ZERO),
        },
        Some("join") => Change::Join {
            cold_slowness: decimal(reader, &key("cold_slowness"), 1.0),
            warm_after: span(reader, &key("warm_after"), Duration::ZERO),
        },
        Some("restart") => Change::Restart {
            down_for: needed_span(reader, &key("down_for"), true).unwrap_or_default(),
            cold_slowness: decimal(reader, &key("cold_slowness"), 1.0),
            warm_after: span(reader, &key("warm_after"), Duration::ZERO),
        },
        Some("suspend") => Change::Suspend {
            // A missing key is already reported; the default avoids a second error about a zero.
            suspended_for: needed_span(reader, &key("suspended_for"), true).unwrap_or(KNOWN_AFTER),
        },
        _ => Change::Crash {
            known_after: span(reader, &key("known_after"), KNOWN_AFTER),
        },
    };
    Event {
        at: at.unwrap_or_default(),
        replica: replica.unwrap_or_default(),
        change,
    }
}
