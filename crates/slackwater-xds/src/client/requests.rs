//! What is to be sent on a stream about one type of resources, and the messages made of it.

use super::Mode;
use crate::messages::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status};
use prost::Message;
use std::collections::{BTreeSet, VecDeque};

/// Code `INVALID_ARGUMENT` of gRPC, which a NACK has.
const INVALID_ARGUMENT: i32 = 3;

/// The most incremental responses that wait for their answers.
const ANSWERS_MAX: usize = 64;

/// What is to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    type_url: &'static str,
    /// Whether nothing was sent yet: the first request has no nonce.
    is_first: bool,
    /// Whether the last request had names; in the state of the world only.
    has_names: bool,
    /// The nonce of the last response; in the state of the world, every request has it.
    nonce: String,
    /// Answers that are due: a nonce, and for a NACK its text.
    answers: VecDeque<(String, Option<String>)>,
    subscribed: BTreeSet<String>,
    unsubscribed: BTreeSet<String>,
}

impl Outgoing {
    /// `names` are to be subscribed to at once.
    pub(super) fn new(type_url: &'static str, names: BTreeSet<String>) -> Self {
        Self {
            type_url,
            is_first: true,
            has_names: false,
            nonce: String::new(),
            answers: VecDeque::new(),
            subscribed: names,
            unsubscribed: BTreeSet::new(),
        }
    }

    pub(super) const fn is_first(&self) -> bool {
        self.is_first
    }

    pub(super) const fn has_names(&self) -> bool {
        self.has_names
    }

    pub(super) fn subscribe(&mut self, name: &str) {
        self.subscribed.insert(name.to_owned());
    }

    pub(super) fn unsubscribe(&mut self, name: &str) {
        // If the control plane was never asked for it, there is nothing to take back.
        if !self.subscribed.remove(name) {
            self.unsubscribed.insert(name.to_owned());
        }
    }

    /// The answer to a response. In the state of the world, a response makes those before it
    /// obsolete, so that only the last one is answered.
    ///
    /// # Errors
    ///
    /// Fails if too many answers wait.
    pub(super) fn answer(
        &mut self,
        mode: Mode,
        nonce: String,
        rejection: Option<String>,
    ) -> Result<(), String> {
        if mode == Mode::StateOfTheWorld {
            self.answers.clear();
        } else if self.answers.len() >= ANSWERS_MAX {
            return Err(format!(
                "it sent more than {ANSWERS_MAX} responses after one that was rejected"
            ));
        }
        self.nonce.clone_from(&nonce);
        self.answers.push_back((nonce, rejection));
        Ok(())
    }

    /// The next request of the state of the world: all names, and the last accepted version. The
    /// first request on a stream, of any type, takes the `node`.
    pub(super) fn whole<'n>(
        &mut self,
        node: &mut Option<Node>,
        version: &str,
        names: impl Iterator<Item = &'n String>,
    ) -> Option<Vec<u8>> {
        // Names that were taken back and are wanted again are left out once: the control plane owes
        // nothing for a list that has not changed.
        let again = self.subscribed.intersection(&self.unsubscribed);
        let again: BTreeSet<_> = again.cloned().collect();
        let names = names.filter(|name| !again.contains(*name));
        let names: Vec<_> = names.cloned().collect();
        let answer = self.answers.pop_front();
        let is_changed = !self.subscribed.is_empty() || !self.unsubscribed.is_empty();
        // An empty list only takes the last names back. As the first list, or as an answer, it
        // would bring everything at some control planes.
        let is_empty = names.is_empty() && !self.has_names;
        if is_empty || (answer.is_none() && !is_changed) {
            return None;
        }
        self.is_first = false;
        self.has_names = !names.is_empty();
        self.subscribed = again;
        self.unsubscribed.clear();
        let (nonce, rejection) = answer.unwrap_or_else(|| (self.nonce.clone(), None));
        let request = DiscoveryRequest {
            version_info: version.to_owned(),
            node: node.take(),
            resource_names: names,
            type_url: self.type_url.to_owned(),
            response_nonce: nonce,
            error_detail: rejection.map(status),
        };
        Some(request.encode_to_vec())
    }

    /// The next incremental request: an answer, or what changes. The first one of this type has the
    /// versions that are `known`; the first one on a stream, of any type, takes the `node`.
    pub(super) fn difference(
        &mut self,
        node: &mut Option<Node>,
        known: impl Iterator<Item = (String, String)>,
    ) -> Option<Vec<u8>> {
        let mut request = DeltaDiscoveryRequest {
            type_url: self.type_url.to_owned(),
            ..DeltaDiscoveryRequest::default()
        };
        if let Some((nonce, rejection)) = self.answers.pop_front() {
            request.response_nonce = nonce;
            request.error_detail = rejection.map(status);
        } else if !self.unsubscribed.is_empty() {
            // Before new subscriptions: a name may be in both.
            let names = core::mem::take(&mut self.unsubscribed);
            request.resource_names_unsubscribe = names.into_iter().collect();
        } else if !self.subscribed.is_empty() {
            let names = core::mem::take(&mut self.subscribed);
            request.resource_names_subscribe = names.into_iter().collect();
        } else {
            return None;
        }
        request.node = node.take();
        if core::mem::take(&mut self.is_first) {
            request.initial_resource_versions = known.collect();
        }
        Some(request.encode_to_vec())
    }
}

fn status(message: String) -> Status {
    Status {
        code: INVALID_ARGUMENT,
        message,
    }
}
