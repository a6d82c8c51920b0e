//! Live data for dashboards: a stream of events, and the history of the last minutes.
//!
//! A task on the admin server's thread reads the status once per interval. Two readings make a tick
//! ([`sampler`]), which goes into the [`history`] and, while there are readers, to all of them as
//! the same bytes (`hub`). Latencies come from histograms ([`latencies`]). The format is defined in
//! [`messages`] and documented in `docs/reference/live.md`.

mod difference;
mod history;
mod latencies;
pub mod messages;
mod sampler;

pub(super) use difference::risen;

use super::hub::Hub;
use super::query::Query;
use super::reply::{Reply, ReplyBody, json, refusal, reply};
use super::router::Asked;
use super::status::Status;
use bytes::Bytes;
use core::fmt;
use core::time::Duration;
use history::History;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use latencies::Window;
use messages::{Fleet, Tick};
use sampler::Look;
use serde::Serialize;
use serde_json::Value;
use slackwater_telemetry::date::since_epoch_ms;
use slackwater_telemetry::facts::{Facts, LastCounts, Lifecycle, StatusSource};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::time::{Instant, MissedTickBehavior};

/// Further live data of the owner.
pub trait Extra: Send + Sync + 'static {
    /// Returns data for the fleet. It is called once per interval; a changed value makes a new
    /// fleet.
    fn fleet(&self) -> Value;
    /// Returns data for the tick. It is called only while there are readers.
    fn tick(&self) -> Value;
}

/// Live data of one source.
pub(super) struct Live {
    source: Arc<dyn StatusSource>,
    lifecycle: Lifecycle,
    extra: Option<Arc<dyn Extra>>,
    interval: Duration,
    started_at: Instant,
    hub: Hub,
    known: Mutex<Known>,
}

/// The last reading, and what was made of it.
struct Known {
    last: Option<(Instant, Look)>,
    /// The counts of that reading, by service.
    counts: BTreeMap<String, LastCounts>,
    fleet: Option<Fleet>,
    tick: Option<Tick>,
    window: Window,
    history: History,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("interval", &self.interval)
            .field("hub", &self.hub)
            .finish_non_exhaustive()
    }
}

impl Live {
    pub(super) fn new(
        source: Arc<dyn StatusSource>,
        lifecycle: Lifecycle,
        interval: Duration,
        readers_max: usize,
        extra: Option<Arc<dyn Extra>>,
    ) -> Self {
        Self {
            source,
            lifecycle,
            extra,
            interval,
            started_at: Instant::now(),
            hub: Hub::new(readers_max),
            known: Mutex::new(Known {
                last: None,
                counts: BTreeMap::new(),
                fleet: None,
                tick: None,
                window: Window::default(),
                history: History::new(interval),
            }),
        }
    }

    /// Reads the status in each interval, forever.
    pub(super) async fn run(&self) {
        let mut beats = tokio::time::interval(self.interval);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            self.look(&self.source.facts());
        }
    }

    /// Takes a reading, and sends its changes.
    fn look(&self, facts: &Facts) {
        let now = Instant::now();
        let uptime = now.duration_since(self.started_at);
        let mut known = self.lock();
        let known = &mut *known;
        let look = Look::new(facts, self.lifecycle.phase(), uptime, &mut known.counts);
        let mut fleet = look.fleet(self.interval, self.extra.as_ref().map(|it| it.fleet()));
        fleet.revision = known.fleet.as_ref().map_or(1, |known| known.revision);
        if known.fleet.as_ref() != Some(&fleet) {
            if let Some(before) = &known.fleet {
                fleet.revision += 1;
                known.window.set_fleet(before, &fleet);
            }
            known.history.set_fleet(&fleet);
            self.hub.send(&event("fleet", &fleet));
            known.fleet = Some(fleet.clone());
        }
        known.window.begin_anew(look.histograms());
        if let Some((at, before)) = &known.last {
            let interval = now.duration_since(*at);
            let at_ms = since_epoch_ms(SystemTime::now());
            let tick = look.tick(before, interval, at_ms, &fleet, &known.window);
            known.history.push(&fleet, &tick);
            if self.hub.has_readers() {
                self.hub.send(&event("tick", &self.complete(tick.clone())));
            }
            known.tick = Some(tick);
        }
        known.window.push(now, look.histograms());
        known.last = Some((now, look));
    }

    /// Adds the owner's data.
    fn complete(&self, tick: Tick) -> Tick {
        Tick {
            demo: self.extra.as_ref().map(|extra| extra.tick()),
            ..tick
        }
    }

    /// Reads from the status of the last reading; `None` before the first.
    pub(super) fn last<T>(&self, read: impl FnOnce(&Status) -> T) -> Option<T> {
        let known = self.lock();
        known.last.as_ref().map(|(_, look)| read(look.status()))
    }

    /// Starts the stream for another reader.
    pub(super) fn listen(&self, asked: Asked) -> Reply {
        if asked.is_head {
            // A HEAD request must not mark its connection as a stream, which would have no time
            // limit.
            return stream();
        }
        let connection = asked.connection;
        let known = self.lock();
        let fleet = known.fleet.iter().map(|fleet| event("fleet", fleet));
        let tick = known
            .tick
            .clone()
            .map(|tick| event("tick", &self.complete(tick)));
        let events = self.hub.listen(fleet.chain(tick), connection.cut);
        let Some(events) = events else {
            let why = "there are too many readers of /events, or the process ends";
            let mut refused = refusal(StatusCode::SERVICE_UNAVAILABLE, why);
            let later = HeaderValue::from_static("5");
            refused.headers_mut().insert(RETRY_AFTER, later);
            return refused;
        };
        connection.streams.cancel();
        let mut stream = stream();
        *stream.body_mut() = ReplyBody::Events(events);
        stream
    }

    /// Ends the stream for all readers.
    pub(super) fn end(&self) {
        self.hub.end();
    }

    /// Returns the history of a service, or of one of its replicas.
    pub(super) fn history(&self, query: &Query) -> Reply {
        if let Some(unknown) = query.unknown(&["service", "replica"]) {
            let why = format!("parameter {unknown}: unknown; there are service, replica");
            return refusal(StatusCode::BAD_REQUEST, why);
        }
        let Some(service) = query.get("service") else {
            let why = "parameter service: is missing; it names a service";
            return refusal(StatusCode::BAD_REQUEST, why);
        };
        let known = self.lock();
        let Some(fleet) = &known.fleet else {
            let why = "nothing is known yet; ask again in a second";
            return refusal(StatusCode::SERVICE_UNAVAILABLE, why);
        };
        let Some(replica) = query.get("replica") else {
            return match known.history.of_service(fleet, service) {
                Some(history) => json(&history),
                None => unknown(format_args!("service {service:?}")),
            };
        };
        match known.history.of_replica(fleet, service, replica) {
            Some(history) => json(&history),
            None => unknown(format_args!("replica {replica:?} in service {service:?}")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The head of the stream.
fn stream() -> Reply {
    let mut stream = reply(StatusCode::OK, "text/event-stream", "");
    // Without this, some proxies would buffer the whole response.
    let headers = stream.headers_mut();
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    stream
}

fn unknown(what: fmt::Arguments<'_>) -> Reply {
    refusal(StatusCode::NOT_FOUND, format_args!("there is no {what}"))
}

/// An event in the format of the stream: JSON has no line breaks.
fn event(name: &str, message: &impl Serialize) -> Bytes {
    let mut text = format!("event: {name}\ndata: ").into_bytes();
    // Serializing cannot fail here; an event without data would be the result.
    let _ = serde_json::to_writer(&mut text, message);
    text.extend_from_slice(b"\n\n");
    text.into()
}
