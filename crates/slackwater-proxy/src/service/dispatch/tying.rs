//! Tied requests: two replicas get a copy each and know of the other. The replica that starts first
//! cancels the other, which then drops its copy. `[H2]`
//!
//! Both replicas are picked at once. The second copy is sent a little later, so that two idle
//! replicas do not both start before the cancellation arrives [The Tail at Scale, "Tied requests"],
//! and not at all if there is an answer by then. A second copy that no replica drops is duplicate
//! work. A budget limits it, so that replicas without support for tied requests get little extra
//! load.

use super::{PickedFor, Service};
use crate::forward::RequestBody;
use crate::service::admission::ServiceCounts;
use crate::service::attempt::Attempt;
use core::cell::RefCell;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_config::{TieDelay, TyingSettings};
use slackwater_core::policy::Query;
use slackwater_core::tail::{TieBudget, TieName};
use slackwater_http::Request;
use slackwater_tower::client::Picked;
use slackwater_tower::wire::tie::Tie;
use std::sync::Arc;
use tokio::time::Instant;

/// The delay if the network's is unknown: the paper's maximum within a data center.
const DELAY_UNKNOWN: Duration = Duration::from_millis(1);

/// Number of names that are drawn at a time, with one system call.
const DRAWN_AT_ONCE: usize = 64;

/// A worker's tied requests to one service.
#[derive(Debug)]
pub(crate) struct Tying {
    delay: TieDelay,
    budget: RefCell<TieBudget>,
    names: RefCell<TieNames>,
    counts: Arc<ServiceCounts>,
}

impl Tying {
    /// `None` if tied requests are disabled.
    pub(crate) fn new(settings: &TyingSettings, counts: &Arc<ServiceCounts>) -> Option<Self> {
        settings.enabled.then(|| {
            let tying = Self {
                delay: settings.delay,
                budget: RefCell::new(TieBudget::new(settings.budget, settings.burst)),
                names: RefCell::default(),
                counts: Arc::clone(counts),
            };
            tying.with_budget(|_| ());
            tying
        })
    }

    /// Changes the budget, and publishes its balance.
    fn with_budget<T>(&self, change: impl FnOnce(&mut TieBudget) -> T) -> T {
        let mut budget = self.budget.borrow_mut();
        let changed = change(&mut budget);
        self.counts.ties_saved.set(budget.saved_millionths());
        changed
    }

    /// Counts a second copy that was sent.
    pub(crate) fn sent(&self) {
        self.counts.ties_sent.add_one();
    }

    /// Counts a copy of a tied request that was dropped because the other had started.
    pub(super) fn count_dropped(&self) {
        self.counts.ties_dropped.add_one();
    }

    fn delay(&self, service: &Service) -> Duration {
        match self.delay {
            TieDelay::Span(span) => span,
            TieDelay::Auto => service.balancer.round_trip().unwrap_or(DELAY_UNKNOWN),
        }
    }
}

impl Service {
    /// Picks a second replica for a request that goes to `first` and may be sent twice. Returns
    /// `None` if it is not tied, or if there is no other replica. A policy that probes before each
    /// pick would delay the first copy, so its requests are not tied either.
    pub(crate) fn tie(&self, first: &Attempt, picked_for: PickedFor<'_>) -> Option<Tied<'_>> {
        let tying = self.tying.as_ref()?;
        tying.with_budget(TieBudget::earn);
        let avoid = &first.replica().parts;
        let mut explanation = picked_for.record.explanation();
        let (now, query) = (
            self.balancer.now(),
            picked_for.with_key(Query::hedge(avoid)),
        );
        let picked = (self.balancer).pick_explained(now, query, explanation.as_deref_mut());
        let Picked::Ready(lease) = picked else {
            return None;
        };
        let replica = self.fleet.find(lease.replica())?;
        let mut second = Box::new(Attempt::new(lease, replica, self.learning));
        if let Some(explanation) = &mut explanation {
            self.fleet.explain_absent(explanation);
        }
        second.explanation = explanation;
        let name = tying.names.borrow_mut().draw();
        let Some(name) = name.filter(|_| self.fleet.may_choose(second.replica())) else {
            second.cancel();
            return None;
        };
        Some(Tied {
            tying,
            name,
            replicas: [first, &second].map(|it| it.replica().config.probe_address),
            second: Some(second),
            due_at: Instant::now() + tying.delay(self),
            is_paid: false,
        })
    }
}

/// A request with two replicas. Dropping it releases the second replica.
#[derive(Debug)]
pub(crate) struct Tied<'s> {
    tying: &'s Tying,
    name: TieName,
    /// Addresses for their cancellation datagrams.
    replicas: [SocketAddr; 2],
    /// The second attempt, until its copy is sent.
    second: Option<Box<Attempt>>,
    due_at: Instant,
    /// Whether the budget has paid for the second copy, and no replica has dropped either copy.
    is_paid: bool,
}

impl<'s> Tied<'s> {
    pub(super) const fn tying(&self) -> &'s Tying {
        self.tying
    }

    /// When the second copy is sent.
    pub(super) const fn due_at(&self) -> Instant {
        self.due_at
    }

    /// Prepares the first copy, which names the second replica.
    pub(super) fn name_first(&self, copy: &mut Request<RequestBody>) {
        self.tying.counts.ties.add_one();
        self.name(copy, self.replicas[1]);
    }

    /// Prepares the second copy, and returns the attempt at its replica.
    pub(super) fn send_second(&mut self, copy: &mut Request<RequestBody>) -> Option<Box<Attempt>> {
        self.name(copy, self.replicas[0]);
        self.second.take()
    }

    fn name(&self, copy: &mut Request<RequestBody>, other_copy: SocketAddr) {
        let name = self.name;
        Tie { name, other_copy }.write(copy.headers_mut());
    }

    /// Releases the second replica, if its copy was not sent.
    pub(super) fn release(&mut self) {
        if let Some(second) = self.second.take() {
            second.cancel();
        }
    }

    /// Pays for the second copy. If the budget is too small, returns `false` and counts it.
    pub(super) fn pay(&mut self) -> bool {
        self.is_paid = self.tying.with_budget(TieBudget::pay);
        if !self.is_paid {
            self.tying.counts.ties_over_budget.add_one();
        }
        self.is_paid
    }

    /// Refunds the second copy, because it was not sent, or because one copy was dropped: there was
    /// no duplicate work.
    pub(super) fn refund(&mut self) {
        if core::mem::take(&mut self.is_paid) {
            self.tying.with_budget(TieBudget::refund);
        }
    }
}

impl Drop for Tied<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Unpredictable names: anyone who could guess one could have a waiting copy dropped.
#[derive(Debug, Default)]
struct TieNames {
    drawn: Vec<u64>,
}

impl TieNames {
    /// `None` if the system has no randomness.
    fn draw(&mut self) -> Option<TieName> {
        if self.drawn.is_empty() {
            let mut bytes = [0; DRAWN_AT_ONCE * size_of::<u64>()];
            getrandom::fill(&mut bytes).ok()?;
            let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
            let words = words.iter().map(|&word| u64::from_ne_bytes(word));
            self.drawn.extend(words);
        }
        self.drawn.pop().map(TieName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn tie_names_are_unique() {
        let mut names = TieNames::default();
        let drawn: BTreeSet<_> = (0..DRAWN_AT_ONCE * 3)
            .filter_map(|_| names.draw().map(|name| name.0))
            .collect();
        assert_eq!(drawn.len(), DRAWN_AT_ONCE * 3);
    }
}
