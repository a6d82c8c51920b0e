//! The resources of one type on an aggregated stream: subscriptions, version, nonces, ACK and NACK.
//! Types share the stream and nothing else, so a NACK that waits delays only its own type.

use super::requests::Outgoing;
use super::subscription::{Event, Failure, Known, Subscription};
use super::{MISSING_AFTER, Mode, NACK_WAIT, NACK_WAIT_MAX, joined};
use crate::content::Content;
use crate::messages;
use crate::policy_config::PolicyCheck;
use crate::response::{Item, RESOURCES_MAX, Response};
use bytes::Bytes;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Resources of one type.
#[derive(Debug)]
pub(super) struct Flow<C> {
    subscriptions: BTreeMap<String, Subscription<C>>,
    /// The version of the last accepted response; in the state of the world only.
    version: String,
    /// Number of responses that were rejected since the last accepted one.
    rejected_in_row: u32,
    /// `None` while there is no stream.
    stream: Option<FlowStream>,
    events: VecDeque<(String, Event<C>)>,
}

/// State of a type on one stream.
#[derive(Debug)]
struct FlowStream {
    /// Until when nothing is sent, because a NACK waits.
    held_until: Option<Duration>,
    outgoing: Outgoing,
}

/// The answer to a response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) nonce: String,
    /// Text of the NACK; `None`: it was an ACK.
    pub(super) rejection: Option<String>,
}

impl<C> Default for Flow<C> {
    fn default() -> Self {
        Self {
            subscriptions: BTreeMap::new(),
            version: String::new(),
            rejected_in_row: 0,
            stream: None,
            events: VecDeque::new(),
        }
    }
}

impl<C: Content> Flow<C> {
    pub(super) fn is_idle(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// Names of the resources that are subscribed to.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.subscriptions.keys()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Subscription<C>> {
        self.subscriptions.get(name)
    }

    /// The last good version of a resource.
    pub(super) fn known(&self, name: &str) -> Option<&Known<C>> {
        self.get(name)?.known.as_ref()
    }

    /// Why there has been no good version of a resource since the last one.
    pub(super) fn failure(&self, name: &str) -> Option<&Failure> {
        self.get(name)?.failure.as_ref()
    }

    /// Subscribes to a resource. Subscribing again has no effect.
    ///
    /// # Errors
    ///
    /// Fails if there are 4,096 subscriptions already.
    pub(super) fn subscribe(&mut self, now: Duration, name: &str) -> Result<(), String> {
        if self.subscriptions.contains_key(name) {
            return Ok(());
        }
        if self.subscriptions.len() >= RESOURCES_MAX {
            return Err(format!("found more than {RESOURCES_MAX} {}s", C::NOUN));
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

    /// Ends a subscription. What was known about the resource is forgotten.
    pub(super) fn unsubscribe(&mut self, name: &str) {
        if self.subscriptions.remove(name).is_some()
            && let Some(stream) = &mut self.stream
        {
            stream.outgoing.unsubscribe(name);
        }
    }

    /// A stream was opened.
    pub(super) fn connected(&mut self, now: Duration) {
        for subscription in self.subscriptions.values_mut() {
            subscription.begin(now);
        }
        let names = self.subscriptions.keys().cloned().collect();
        self.stream = Some(FlowStream {
            held_until: None,
            outgoing: Outgoing::new(C::TYPE, names),
        });
    }

    /// The stream has ended, or could not be opened.
    pub(super) fn disconnected(&mut self, was_reached: bool, why: &str) {
        self.stream = None;
        for (name, subscription) in &mut self.subscriptions {
            subscription.due_at = None;
            if !was_reached || subscription.known.is_none() {
                let event = subscription.fail(Failure {
                    why: why.to_owned(),
                    has_answered: false,
                });
                self.events.push_back((name.clone(), event));
            }
        }
    }

    /// Whether resources of this type were requested on the stream.
    pub(super) fn is_requested(&self) -> bool {
        let stream = self.stream.as_ref();
        stream.is_some_and(|stream| !stream.outgoing.is_first())
    }

    /// A response with resources of this type has arrived.
    ///
    /// # Errors
    ///
    /// Fails if it is no response, or one too many before answers.
    pub(super) fn received(
        &mut self,
        now: Duration,
        mode: Mode,
        message: Bytes,
        check: PolicyCheck,
    ) -> Result<Answer, String> {
        let is_incremental = mode == Mode::Incremental;
        let subscriptions = &self.subscriptions;
        let is_wanted = |name: &str| subscriptions.contains_key(name);
        let response = Response::<C>::read(message, is_incremental, is_wanted)?;
        let left_out = if C::IS_WHOLE && !is_incremental {
            self.left_out(&response)
        } else {
            Vec::new()
        };
        let mut mistakes = response.mistakes;
        for item in response.resources {
            let version = if item.version.is_empty() {
                response.version.clone()
            } else {
                item.version.clone()
            };
            let item = item.checked(check);
            if let Some(mistake) = self.take(now, item, version) {
                mistakes.push(mistake);
            }
        }
        for name in response.removed.into_iter().chain(left_out) {
            if let Some(subscription) = self.subscriptions.get_mut(&name) {
                let event = subscription.remove();
                self.events.push_back((name, event));
            }
        }
        for (name, why) in response.errors {
            if let Some(subscription) = self.subscriptions.get_mut(&name) {
                let event = subscription.refuse(&format!("the control plane reports: {why}"));
                self.events.push_back((name, event));
            }
        }
        let rejection = (!mistakes.is_empty()).then(|| joined(&mistakes));
        if rejection.is_none() {
            self.rejected_in_row = 0;
            self.version = response.version;
        } else {
            self.rejected_in_row = self.rejected_in_row.saturating_add(1);
        }
        let wait = self.nack_wait();
        if let Some(stream) = &mut self.stream {
            // Responses that come while a NACK waits don't prolong the wait: requests wait, too.
            let held_until = |wait| now.saturating_add(wait);
            stream.held_until = wait.map(|wait| stream.held_until.unwrap_or(held_until(wait)));
            let outgoing = &mut stream.outgoing;
            outgoing.answer(mode, response.nonce.clone(), rejection.clone())?;
        }
        Ok(Answer {
            nonce: response.nonce,
            rejection,
        })
    }

    /// The resources that a response removes by leaving them out.
    fn left_out(&self, response: &Response<C>) -> Vec<String> {
        // A resource whose name cannot be read may be any of them.
        if response.is_heartbeat || !response.mistakes.is_empty() {
            return Vec::new();
        }
        let sent = response.resources.iter().map(|item| &item.name);
        let errors = response.errors.iter().map(|(name, _)| name);
        let sent: BTreeSet<_> = sent.chain(errors).collect();
        let known = self.subscriptions.iter();
        // One that is not known may have been requested after the response was sent.
        let known = known.filter(|(_, subscription)| subscription.known.is_some());
        let names = known.map(|(name, _)| name);
        names.filter(|name| !sent.contains(name)).cloned().collect()
    }

    /// How long the answer to the last response waits.
    fn nack_wait(&self) -> Option<Duration> {
        let repeated = self.rejected_in_row.checked_sub(2)?;
        let doubled = NACK_WAIT.saturating_mul(2_u32.saturating_pow(repeated));
        Some(doubled.min(NACK_WAIT_MAX))
    }

    /// Handles one resource of a response; returns its mistake, for the NACK.
    fn take(&mut self, now: Duration, item: Item<C>, version: String) -> Option<String> {
        let name = item.name;
        let subscription = self.subscriptions.get_mut(&name)?;
        let expires_at = item.ttl.map(|ttl| now.saturating_add(ttl));
        let (event, mistake) = match item.content {
            None => (subscription.renew(expires_at), None),
            Some(Ok(content)) => {
                let event = subscription.accept(Known {
                    version,
                    content: Arc::new(content),
                    expires_at,
                    is_expired: false,
                });
                (Some(event), None)
            }
            Some(Err(told)) => {
                let event = subscription.refuse(&format!("{} rejected: {told}", C::NOUN));
                (Some(event), Some(format!("{name}: {told}")))
            }
        };
        self.events.extend(event.map(|event| (name, event)));
        mistake
    }

    /// Keeps and reports a failure of a resource that was accepted.
    pub(super) fn refuse(&mut self, name: &str, why: &str) {
        if let Some(subscription) = self.subscriptions.get_mut(name) {
            let event = subscription.refuse(why);
            self.events.push_back((name.to_owned(), event));
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let subscriptions = self.subscriptions.values();
        let held_until = self.stream.as_ref().and_then(|stream| stream.held_until);
        let deadlines = subscriptions.filter_map(Subscription::deadline);
        deadlines.chain(held_until).min()
    }

    /// Handles deadlines that have passed.
    pub(super) fn poll(&mut self, now: Duration) {
        if let Some(stream) = &mut self.stream {
            stream.held_until = stream.held_until.filter(|until| *until > now);
        }
        for (name, subscription) in &mut self.subscriptions {
            let events = subscription.poll(now);
            self.events
                .extend(events.map(|event| (name.clone(), event)));
        }
    }

    /// Returns the next event of a resource, with its name.
    pub(super) fn poll_event(&mut self) -> Option<(String, Event<C>)> {
        self.events.pop_front()
    }

    /// Returns the next message to send on the stream, which takes the `node` if it is the first.
    pub(super) fn poll_transmit(
        &mut self,
        mode: Mode,
        node: &mut Option<messages::Node>,
    ) -> Option<Vec<u8>> {
        let stream = self.stream.as_mut()?;
        if stream.held_until.is_some() {
            return None;
        }
        match mode {
            Mode::StateOfTheWorld => {
                // Without a version, the control plane sends everything. It must, if anything is
                // not known. The last nonce stays, since others count as stale.
                let is_complete = self.subscriptions.values().all(|it| it.current().is_some());
                let version = if !stream.outgoing.has_names() && !is_complete {
                    ""
                } else {
                    &self.version
                };
                let names = self.subscriptions.keys();
                stream.outgoing.whole(node, version, names)
            }
            Mode::Incremental => {
                let subscriptions = self.subscriptions.iter();
                let known = subscriptions.filter_map(|(name, subscription)| {
                    let known = subscription.current()?;
                    Some((name.clone(), known.version.clone()))
                });
                stream.outgoing.difference(node, known)
            }
        }
    }
}
