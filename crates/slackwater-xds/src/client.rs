//! The client's side of an aggregated stream as a value: subscriptions, versions, nonces, ACK and
//! NACK, deadlines.
//!
//! The owner connects while the client [has subscriptions](Client::is_idle), reports what happens
//! to the stream, and calls [`poll`](Client::poll) at the [deadline](Client::deadline). After each
//! call it sends what [`poll_transmit`](Client::poll_transmit) returns, before it reads the next
//! message, so no queue grows; and it handles what [`poll_report`](Client::poll_report) returns.
//!
//! Rules, with their sources: every response is answered once, by an ACK with its version or by a
//! NACK with the last accepted one (xDS protocol). Good resources of a rejected response are used
//! (gRFC A46). A resource that is not there 15 s after the request does not exist (gRFC A57). In
//! the state of the world, an EDS resource that a response leaves out is unchanged. A new stream
//! begins with the versions that are known. A stream that was lost changes no resource.

mod facts;
mod requests;
mod subscription;

pub use facts::Facts;

use crate::EDS_TYPE;
use crate::assignment::Assignment;
use crate::node::Node;
use crate::response::{Item, RESOURCES_MAX, Response};
use bytes::Bytes;
use core::time::Duration;
use requests::Outgoing;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use subscription::{Known, Subscription};

/// How long a resource may be missing on a stream until it counts as not existing.
pub const MISSING_AFTER: Duration = Duration::from_secs(15);

/// How long a new stream must last until the resources that are known count as confirmed. A control
/// plane sends nothing if the client's versions are current.
pub const CONFIRMED_AFTER: Duration = Duration::from_secs(2);

/// How long the second NACK in a row waits. Some control planes send a rejected response again at
/// once, for as long as it is rejected.
pub const NACK_WAIT: Duration = Duration::from_secs(1);

/// The longest wait of a NACK. Each one waits twice as long as the one before.
pub const NACK_WAIT_MAX: Duration = Duration::from_secs(10);

/// The longest text of a NACK, in bytes.
const NACK_BYTES_MAX: usize = 4096;

/// The longest reason of a failure, in bytes: parts of it may be the control plane's own.
const WHY_BYTES_MAX: usize = 1024;

/// The most mistakes that a NACK names.
const MISTAKES_NAMED_MAX: usize = 8;

/// The variant of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each request names all resources, and each response has one version.
    StateOfTheWorld,
    /// Requests and responses name what changes, and each resource has its own version (delta).
    Incremental,
}

/// What the owner must know about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A version of the resource was accepted, perhaps the one that was known already.
    Accepted {
        /// The resource.
        name: String,
        /// Its version.
        version: String,
        /// Its endpoints.
        assignment: Arc<Assignment>,
    },
    /// There is no good new version, for this reason. The last one, if there is any, is still the
    /// best that is known.
    Failed {
        /// The resource.
        name: String,
        /// The reason.
        why: String,
        /// Whether the control plane was reached: the failure is about its answer, or about the
        /// lack of one on an open stream.
        has_answered: bool,
    },
}

/// The client.
#[derive(Debug)]
pub struct Client {
    node: Node,
    mode: Mode,
    subscriptions: BTreeMap<String, Subscription>,
    /// The version of the last accepted response; in the state of the world only.
    version: String,
    /// Number of responses that were rejected since the last accepted one.
    rejected_in_row: u32,
    /// `None` while there is no stream.
    stream: Option<Stream>,
    reports: VecDeque<Report>,
    facts: Facts,
}

/// State of one stream.
#[derive(Debug)]
struct Stream {
    began: Duration,
    /// Whether a response has come.
    has_answered: bool,
    /// Until when nothing is sent, because a NACK waits.
    held_until: Option<Duration>,
    outgoing: Outgoing,
}

impl Client {
    /// A client without subscriptions and without a stream.
    pub fn new(node: Node, mode: Mode) -> Self {
        Self {
            node,
            mode,
            subscriptions: BTreeMap::new(),
            version: String::new(),
            rejected_in_row: 0,
            stream: None,
            reports: VecDeque::new(),
            facts: Facts::default(),
        }
    }

    /// The variant of the protocol.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether there is nothing to subscribe to, so that no stream is needed.
    pub fn is_idle(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// Names of the resources that are subscribed to.
    pub fn names(&self) -> Vec<String> {
        self.subscriptions.keys().cloned().collect()
    }

    /// Counts of what has happened so far.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Subscribes to a resource. `now` is the time since any fixed moment, here and below.
    /// Subscribing again has no effect.
    ///
    /// # Errors
    ///
    /// Fails if there are 4,096 subscriptions already.
    pub fn subscribe(&mut self, now: Duration, name: &str) -> Result<(), String> {
        if self.subscriptions.contains_key(name) {
            return Ok(());
        }
        if self.subscriptions.len() >= RESOURCES_MAX {
            return Err(format!("found more than {RESOURCES_MAX} resources"));
        }
        let mut subscription = Subscription::default();
        if let Some(stream) = &mut self.stream {
            subscription.due_at = Some(now + MISSING_AFTER);
            stream.outgoing.subscribe(name);
            // A NACK that waits must not delay a fleet that may be needed for a start.
            stream.held_until = None;
        }
        self.subscriptions.insert(name.to_owned(), subscription);
        Ok(())
    }

    /// Reports again what is known about a resource, for a reader that has begun later.
    pub fn repeat(&mut self, name: &str) {
        if let Some(subscription) = self.subscriptions.get(name) {
            let known = subscription.known.iter();
            self.reports.extend(known.map(|known| known.report(name)));
            self.reports.extend(subscription.failure.clone());
        }
    }

    /// Ends a subscription. What was known about the resource is forgotten.
    pub fn unsubscribe(&mut self, name: &str) {
        if self.subscriptions.remove(name).is_some()
            && let Some(stream) = &mut self.stream
        {
            stream.outgoing.unsubscribe(name);
        }
    }

    /// A stream was opened.
    pub fn connected(&mut self, now: Duration) {
        for subscription in self.subscriptions.values_mut() {
            subscription.begin(now);
        }
        let names = self.subscriptions.keys().cloned().collect();
        self.stream = Some(Stream {
            began: now,
            has_answered: false,
            held_until: None,
            outgoing: Outgoing::new(names),
        });
    }

    /// The stream has ended, or could not be opened, for this reason. Returns whether the control
    /// plane [had been reached](Self::is_reached): then the loss is an ordinary one, and resources
    /// that are known are reported only if the next stream fails, too.
    pub fn disconnected(&mut self, now: Duration, why: &str) -> bool {
        let was_reached = self.is_reached(now);
        self.stream = None;
        self.facts.nonce.clear();
        for (name, subscription) in &mut self.subscriptions {
            subscription.due_at = None;
            if !was_reached || subscription.known.is_none() {
                self.reports.push_back(subscription.fail(Report::Failed {
                    name: name.clone(),
                    why: why.to_owned(),
                    has_answered: false,
                }));
            }
        }
        was_reached
    }

    /// A message has arrived.
    ///
    /// # Errors
    ///
    /// Fails if it is no response, or one too many before answers: then the owner ends the stream.
    pub fn received(&mut self, now: Duration, message: Bytes) -> Result<(), String> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let subscriptions = &self.subscriptions;
        let is_incremental = self.mode == Mode::Incremental;
        let response = Response::read(message, is_incremental, |name| {
            subscriptions.contains_key(name)
        })?;
        if response.type_url != EDS_TYPE {
            // Nothing of another type was requested, so nothing is answered.
            self.facts.foreign += 1;
            return Ok(());
        }
        stream.has_answered = true;
        self.facts.nonce.clone_from(&response.nonce);
        let mut mistakes = response.mistakes;
        for item in response.resources {
            let version = if item.version.is_empty() {
                response.version.clone()
            } else {
                item.version.clone()
            };
            if let Some(mistake) = self.take(now, item, version) {
                mistakes.push(mistake);
            }
        }
        for name in response.removed {
            self.remove(&name);
        }
        for (name, why) in response.errors {
            if let Some(subscription) = self.subscriptions.get_mut(&name) {
                subscription.due_at = None;
                let why = format!("the control plane reports: {why}");
                let report = subscription.fail(failed(&name, &why));
                self.reports.push_back(report);
            }
        }
        let rejection = (!mistakes.is_empty()).then(|| joined(&mistakes));
        match &rejection {
            None => {
                self.facts.accepted += 1;
                self.rejected_in_row = 0;
                self.version = response.version;
            }
            Some(why) => {
                self.facts.rejected += 1;
                self.facts.rejection = Some(why.clone());
                self.rejected_in_row = self.rejected_in_row.saturating_add(1);
            }
        }
        let wait = self.nack_wait();
        if let Some(stream) = &mut self.stream {
            // Responses that come while a NACK waits don't prolong the wait: requests wait, too.
            let held_until = |wait| now.saturating_add(wait);
            stream.held_until = wait.map(|wait| stream.held_until.unwrap_or(held_until(wait)));
            stream
                .outgoing
                .answer(self.mode, response.nonce, rejection)?;
        }
        Ok(())
    }

    /// How long the answer to the last response waits.
    fn nack_wait(&self) -> Option<Duration> {
        let repeated = self.rejected_in_row.checked_sub(2)?;
        let doubled = NACK_WAIT.saturating_mul(2_u32.saturating_pow(repeated));
        Some(doubled.min(NACK_WAIT_MAX))
    }

    /// Handles one resource of a response; returns its mistake, for the NACK.
    fn take(&mut self, now: Duration, item: Item, version: String) -> Option<String> {
        let subscription = self.subscriptions.get_mut(&item.name)?;
        let name = item.name;
        let expires_at = item.ttl.map(|ttl| now.saturating_add(ttl));
        match item.assignment {
            // A heartbeat: the time to live begins anew, and nothing else changes.
            None => {
                if let Some(known) = &mut subscription.known {
                    known.expires_at = expires_at;
                    if core::mem::take(&mut known.is_expired) {
                        subscription.failure = None;
                        self.reports.push_back(known.report(&name));
                    }
                }
                None
            }
            Some(Ok(assignment)) => {
                let known = Known {
                    version,
                    assignment: Arc::new(assignment),
                    expires_at,
                    is_expired: false,
                };
                self.reports.push_back(known.report(&name));
                *subscription = Subscription {
                    known: Some(known),
                    ..Subscription::default()
                };
                None
            }
            Some(Err(told)) => {
                // It exists, so it does not count as missing.
                subscription.due_at = None;
                let why = format!("resource rejected: {told}");
                self.reports
                    .push_back(subscription.fail(failed(&name, &why)));
                Some(format!("{name}: {told}"))
            }
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(subscription) = self.subscriptions.get_mut(name) {
            subscription.due_at = None;
            let why = match subscription.known.take() {
                Some(_) => "the control plane has removed the resource",
                None => "the resource does not exist",
            };
            self.reports.push_back(subscription.fail(failed(name, why)));
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let subscriptions = self.subscriptions.values();
        let held_until = self.stream.as_ref().and_then(|stream| stream.held_until);
        let deadlines = subscriptions.filter_map(Subscription::deadline);
        deadlines.chain(held_until).min()
    }

    /// Handles deadlines that have passed.
    pub fn poll(&mut self, now: Duration) {
        if let Some(stream) = &mut self.stream {
            stream.held_until = stream.held_until.filter(|until| *until > now);
        }
        for (name, subscription) in &mut self.subscriptions {
            self.reports.extend(subscription.poll(now, name));
        }
    }

    /// Returns the next message to send on the stream.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        let stream = self.stream.as_mut()?;
        if stream.held_until.is_some() {
            return None;
        }
        let message = match self.mode {
            Mode::StateOfTheWorld => {
                // Without a version, the control plane sends everything. It must, if anything is
                // not known.
                let is_complete = self.subscriptions.values().all(|it| it.current().is_some());
                let version = if stream.outgoing.is_first() && !is_complete {
                    ""
                } else {
                    &self.version
                };
                let names = self.subscriptions.keys();
                stream.outgoing.whole(&self.node, version, names)
            }
            Mode::Incremental => {
                let known = self
                    .subscriptions
                    .iter()
                    .filter_map(|(name, subscription)| {
                        let known = subscription.current()?;
                        Some((name.clone(), known.version.clone()))
                    });
                stream.outgoing.difference(&self.node, known)
            }
        };
        self.facts.requests += u64::from(message.is_some());
        message
    }

    /// Returns the next report.
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Whether the stream has lasted long enough, or has brought an answer, so that the control
    /// plane counts as reached.
    pub fn is_reached(&self, now: Duration) -> bool {
        self.stream.as_ref().is_some_and(|stream| {
            stream.has_answered || now >= stream.began.saturating_add(CONFIRMED_AFTER)
        })
    }
}

fn failed(name: &str, why: &str) -> Report {
    Report::Failed {
        name: name.to_owned(),
        why: why[..why.floor_char_boundary(WHY_BYTES_MAX)].to_owned(),
        has_answered: true,
    }
}

/// Joins mistakes into the text of a NACK.
fn joined(mistakes: &[String]) -> String {
    let named = mistakes.iter().take(MISTAKES_NAMED_MAX).cloned();
    let mut text = named.collect::<Vec<_>>().join("; ");
    let more = mistakes.len().saturating_sub(MISTAKES_NAMED_MAX);
    if more > 0 {
        text = format!("{text}; and {more} more");
    }
    text.truncate(text.floor_char_boundary(NACK_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests;
