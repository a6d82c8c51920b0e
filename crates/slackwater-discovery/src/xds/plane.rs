//! The control plane of a process: one task that keeps one stream, and the fleets that sources
//! follow on it.
//!
//! The task connects while there are sources. After a failure it waits, longer each time, and
//! begins again with the versions that are known. Files with secrets are read for each stream.

use super::connection::connect;
use super::stream::{Ended, Stream};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use slackwater_config::{ClusterPolicy, XdsSettings};
use slackwater_core::{Draw, SplitMix64};
use slackwater_telemetry::facts::XdsState;
use slackwater_xds::{Assignment, Backoff, Client, FleetName, Mode, Node, PolicyConfig, Report};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Longest time until a connection is open, TLS included.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The last reports about a fleet. A newer report replaces an older one of its kind, so a slow
/// reader misses no fleet and holds up nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest {
    accepted: Option<(u64, Accepted)>,
    version: String,
    failure: Option<(u64, String)>,
    /// Whether the control plane was reached when the last failure was reported.
    pub(super) has_answered: bool,
}

/// A version of a fleet that was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) assignment: Arc<Assignment>,
    /// The policy that its cluster chooses.
    pub(super) policy: Option<Arc<PolicyConfig>>,
}

impl Latest {
    /// The first report after that number, with its own number.
    pub(super) fn after(&self, number: u64) -> Option<(u64, Result<Accepted, String>)> {
        let accepted = self.accepted.clone().map(|(at, it)| (at, Ok(it)));
        let failure = self.failure.clone().map(|(at, why)| (at, Err(why)));
        let reports = accepted.into_iter().chain(failure);
        let later = reports.filter(|(at, _)| *at > number);
        later.min_by_key(|(at, _)| *at)
    }

    fn take(&mut self, report: Report) {
        let numbers = [
            self.accepted.as_ref().map(|(at, _)| *at),
            self.failure.as_ref().map(|(at, _)| *at),
        ];
        let number = numbers.into_iter().flatten().max().unwrap_or_default() + 1;
        match report {
            Report::Accepted {
                version,
                assignment,
                policy,
                ..
            } => {
                self.version = version;
                self.accepted = Some((number, Accepted { assignment, policy }));
            }
            Report::Failed {
                why, has_answered, ..
            } => {
                self.failure = Some((number, why));
                self.has_answered = has_answered;
            }
        }
    }
}

/// A fleet that sources follow.
#[derive(Debug, Default)]
struct Followed {
    /// Tells it from an earlier one of the same name, whose sources are gone.
    number: u64,
    latest: watch::Sender<Latest>,
    sources: usize,
}

/// State that the task and its owners share.
#[derive(Debug)]
pub(super) struct Shared {
    settings: XdsSettings,
    fleets: Mutex<BTreeMap<FleetName, Followed>>,
    /// Number of fleets so far.
    begun: AtomicU64,
    /// Notified when fleets come or go.
    changed: Notify,
    state: watch::Sender<XdsState>,
}

impl Shared {
    fn fleets(&self) -> MutexGuard<'_, BTreeMap<FleetName, Followed>> {
        self.fleets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A control plane that is followed. Cheap to clone; the last clone ends its task.
#[derive(Clone, Debug)]
pub struct ControlPlane(Arc<Owner>);

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

/// The interest of one source in a fleet.
#[derive(Debug)]
pub(super) struct Subscription {
    plane: ControlPlane,
    name: FleetName,
}

impl Subscription {
    pub(super) const fn name(&self) -> &FleetName {
        &self.name
    }

    pub(super) const fn plane(&self) -> &ControlPlane {
        &self.plane
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let shared = &self.plane.0.shared;
        let mut fleets = shared.fleets();
        if let Some(followed) = fleets.get_mut(&self.name) {
            followed.sources -= 1;
            if followed.sources == 0 {
                fleets.remove(&self.name);
            }
        }
        drop(fleets);
        shared.changed.notify_one();
    }
}

impl ControlPlane {
    /// Starts the task, which connects as soon as a source needs it. Needs a tokio runtime. `node`
    /// describes this process; `seed` is for the waits between attempts.
    pub fn start(settings: XdsSettings, node: Node, seed: u64) -> Self {
        let mode = if settings.delta {
            Mode::Incremental
        } else {
            Mode::StateOfTheWorld
        };
        let server = settings.server.as_ref();
        let state = XdsState {
            server: server.map(ToString::to_string).unwrap_or_default(),
            ..XdsState::default()
        };
        let shared = Arc::new(Shared {
            settings,
            fleets: Mutex::default(),
            begun: AtomicU64::new(0),
            changed: Notify::new(),
            state: watch::Sender::new(state),
        });
        let task = Task {
            shared: Arc::clone(&shared),
            client: Client::new(node, mode).with_check(ClusterPolicy::check),
            started: Instant::now(),
            subscribed: BTreeMap::new(),
            backoff: Backoff::default(),
            draw: SplitMix64::new(seed),
            rejection: None,
        };
        Self(Arc::new(Owner {
            shared,
            _task: AbortOnDropHandle::new(tokio::spawn(task.run())),
        }))
    }

    /// The settings that it was started with.
    pub fn settings(&self) -> &XdsSettings {
        &self.0.shared.settings
    }

    /// The state of the stream, and the version of a fleet.
    pub fn state(&self, name: &FleetName) -> XdsState {
        let fleets = self.0.shared.fleets();
        let version = fleets.get(name);
        let version = version.map(|it| it.latest.borrow().version.clone());
        XdsState {
            version: version.unwrap_or_default(),
            ..self.0.shared.state.borrow().clone()
        }
    }

    /// Reports to the sources of a fleet, as the task does.
    #[cfg(test)]
    pub(super) fn tell(&self, name: &FleetName, report: Report) {
        let fleets = self.0.shared.fleets();
        let followed = fleets.get(name).expect("subscribed to");
        followed.latest.send_modify(|latest| latest.take(report));
    }

    pub(super) fn subscribe(&self, name: FleetName) -> (Subscription, watch::Receiver<Latest>) {
        let shared = &self.0.shared;
        let mut fleets = shared.fleets();
        let begin = || Followed {
            number: shared.begun.fetch_add(1, Relaxed),
            ..Followed::default()
        };
        let followed = fleets.entry(name.clone()).or_insert_with(begin);
        followed.sources += 1;
        let latest = followed.latest.subscribe();
        drop(fleets);
        shared.changed.notify_one();
        let subscription = Subscription {
            plane: self.clone(),
            name,
        };
        (subscription, latest)
    }
}

/// The task.
struct Task {
    shared: Arc<Shared>,
    client: Client,
    /// The moment from which the client's times count.
    started: Instant,
    /// The numbers of the fleets that are subscribed to.
    subscribed: BTreeMap<FleetName, u64>,
    backoff: Backoff,
    draw: SplitMix64,
    /// The last NACK that was logged.
    rejection: Option<String>,
}

impl Task {
    async fn run(mut self) {
        loop {
            self.renew_subscriptions();
            if self.client.is_idle() {
                self.shared.changed.notified().await;
                continue;
            }
            let why = self.attempt().await;
            let was_reached = self.client.disconnected(self.now(), &why);
            if was_reached {
                self.backoff.reset();
            }
            self.publish(false);
            if self.client.is_idle() {
                continue;
            }
            let wait = self.backoff.wait(self.draw.draw());
            tracing::debug!(server = self.server(), ?wait, "control plane lost: {why}");
            sleep(wait).await;
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn server(&self) -> String {
        self.shared.state.borrow().server.clone()
    }

    /// Connects, and runs a stream to its end. Returns why it has ended.
    async fn attempt(&mut self) -> String {
        let opened = timeout(CONNECT_MAX, connect(&self.shared.settings)).await;
        let connection = match opened {
            Ok(Ok(connection)) => connection,
            Ok(Err(why)) => return format!("the control plane cannot be reached: {why}"),
            Err(_) => return format!("the control plane did not answer within {CONNECT_MAX:?}"),
        };
        let mut stream = match Stream::open(connection, self.client.mode(), &self.shared.settings) {
            Ok(stream) => stream,
            Err(why) => return why,
        };
        self.client.connected(self.now());
        self.shared.state.send_modify(|state| state.streams += 1);
        let Err(why) = self.converse(&mut stream).await else {
            return "no fleet is needed any more".to_owned();
        };
        format!("the stream of the control plane has ended: {why}")
    }

    /// Runs a stream until it ends, or until nothing is subscribed to any more.
    async fn converse(&mut self, stream: &mut Stream) -> Result<(), Ended> {
        loop {
            while let Some(message) = self.client.poll_transmit() {
                stream.send(&message).await?;
            }
            self.publish(true);
            let deadline = self.client.deadline().map(|at| self.started + at);
            tokio::select! {
                message = stream.next() => {
                    let received = self.client.received(self.now(), message?);
                    received.map_err(Ended::from)?;
                }
                () = self.shared.changed.notified() => {
                    self.renew_subscriptions();
                    if self.client.is_idle() {
                        return Ok(());
                    }
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.client.poll(self.now());
                }
            }
        }
    }

    /// Subscribes to the fleets that sources follow, and to no others.
    fn renew_subscriptions(&mut self) {
        let now = self.now();
        let fleets = self.shared.fleets();
        for name in self.client.names() {
            if !fleets.contains_key(&name) {
                self.client.unsubscribe(&name);
                self.subscribed.remove(&name);
            }
        }
        for (name, followed) in &*fleets {
            match self.subscribed.insert(name.clone(), followed.number) {
                Some(number) if number == followed.number => continue,
                // Its readers are new, and what is known was reported to others.
                Some(_) => self.client.repeat(name),
                None => (),
            }
            if let Err(why) = self.client.subscribe(now, name) {
                let name = name.clone();
                let failed = Report::Failed {
                    name,
                    why,
                    has_answered: false,
                };
                followed.latest.send_modify(|latest| latest.take(failed));
            }
        }
    }

    /// Passes reports to their sources, and the state to the status.
    fn publish(&mut self, is_connected: bool) {
        let fleets = self.shared.fleets();
        while let Some(report) = self.client.poll_report() {
            let (Report::Accepted { name, .. } | Report::Failed { name, .. }) = &report;
            if let Some(followed) = fleets.get(name) {
                followed.latest.send_modify(|latest| latest.take(report));
            }
        }
        drop(fleets);
        let facts = self.client.facts();
        self.shared.state.send_modify(|state| {
            state.is_connected = is_connected;
            state.nonce.clone_from(&facts.nonce);
            state.accepted = facts.accepted;
            state.rejected = facts.rejected;
            state.rejection.clone_from(&facts.rejection);
        });
        if facts.rejection != self.rejection
            && let Some(why) = &facts.rejection
        {
            let server = self.server();
            tracing::warn!(server, "response of the control plane rejected: {why}");
            self.rejection.clone_from(&facts.rejection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(version: &str) -> Report {
        Report::Accepted {
            name: FleetName::Endpoints("web".to_owned()),
            version: version.to_owned(),
            assignment: Arc::default(),
            policy: None,
        }
    }

    fn failed(why: &str) -> Report {
        Report::Failed {
            name: FleetName::Endpoints("web".to_owned()),
            why: why.to_owned(),
            has_answered: true,
        }
    }

    #[test]
    fn a_reader_misses_neither_the_last_fleet_nor_the_last_failure() {
        let mut latest = Latest::default();
        assert!(latest.after(0).is_none());
        for report in [accepted("1"), failed("a"), accepted("2"), failed("b")] {
            latest.take(report);
        }
        let (third, report) = latest.after(0).expect("there");
        assert!(report.is_ok());
        let (fourth, report) = latest.after(third).expect("there");
        assert_eq!(report, Err("b".to_owned()));
        assert_eq!((third, fourth, latest.version.as_str()), (3, 4, "2"));
        assert!(latest.after(fourth).is_none());
    }
}
