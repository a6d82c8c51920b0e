//! Requests that are sent to two replicas, each of which knows of the other: whichever begins first
//! tells the other one, which then drops its copy. `[H2]`
//!
//! Both replicas are chosen at once. The second copy sets out a little later, so that two idle
//! replicas do not begin both before either has heard of the other [The Tail at Scale, "Tied
//! requests"], and not at all if there is an answer by then. A second copy that nobody drops is
//! work done twice; a budget bounds it, so that replicas which know nothing of ties hardly have
//! more to do.

use super::Service;
use crate::forward::RequestBody;
use crate::request_record::RecordHandle;
use crate::service::admission::ServiceCounts;
use crate::service::attempt::Attempt;
use core::cell::RefCell;
use core::net::SocketAddr;
use core::time::Duration;
use http::Request;
use slackwater_config::{TieDelay, TyingSettings};
use slackwater_core::policy::Query;
use slackwater_core::tail::{TieBudget, TieName, WatchEnd};
use slackwater_tower::client::Picked;
use slackwater_tower::wire::tie::Tie;
use std::sync::Arc;
use tokio::time::Instant;

/// The delay where the network's is not known: what the paper takes for the most within a data
/// centre.
const DELAY_UNKNOWN: Duration = Duration::from_millis(1);

/// Names are drawn so many at a time, with one system call.
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
    /// `None`: no request is tied.
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

    /// Pays in or out, and tells what is there afterwards.
    fn with_budget<T>(&self, change: impl FnOnce(&mut TieBudget) -> T) -> T {
        let mut budget = self.budget.borrow_mut();
        let changed = change(&mut budget);
        self.counts.ties_saved.set(budget.saved_millionths());
        changed
    }

    /// A second copy is on its way.
    pub(crate) fn sent(&self) {
        self.counts.ties_sent.add_one();
    }

    /// A copy of a tied request was dropped, for the other had begun.
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
    /// A second replica for a request that `first` has, which may be sent twice; `None` if it is
    /// not to be tied, or there is nobody else. Whoever asks replicas before each choice would keep
    /// the first copy waiting for that: there is none, either.
    pub(crate) fn tie(&self, first: &Attempt, record: &RecordHandle) -> Option<Tied<'_>> {
        let tying = self.tying.as_ref()?;
        tying.with_budget(TieBudget::earn);
        let avoid = &first.replica().parts;
        let mut explanation = record.explanation();
        let (now, query) = (self.balancer.now(), Query::hedge(avoid));
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

/// A request with two replicas. Dropped, the second one is given back.
#[derive(Debug)]
pub(crate) struct Tied<'s> {
    tying: &'s Tying,
    name: TieName,
    /// Where they take datagrams.
    replicas: [SocketAddr; 2],
    /// The second one, until its copy is sent.
    second: Option<Box<Attempt>>,
    due_at: Instant,
    /// The second copy cost something, and nobody has dropped either.
    is_paid: bool,
}

impl<'s> Tied<'s> {
    pub(super) const fn tying(&self) -> &'s Tying {
        self.tying
    }

    /// When the second copy sets out.
    pub(super) const fn due_at(&self) -> Instant {
        self.due_at
    }

    /// The first copy goes out, and says where the second will be.
    pub(super) fn name_first(&self, copy: &mut Request<RequestBody>) {
        self.tying.counts.ties.add_one();
        self.name(copy, self.replicas[1]);
    }

    /// And the second one, which goes to the replica that is handed out.
    pub(super) fn send_second(&mut self, copy: &mut Request<RequestBody>) -> Option<Box<Attempt>> {
        self.name(copy, self.replicas[0]);
        self.second.take()
    }

    fn name(&self, copy: &mut Request<RequestBody>, twin: SocketAddr) {
        let name = self.name;
        Tie { name, twin }.write(copy.headers_mut());
    }

    /// Pays for the second copy; `false`, and counted, if there is not enough.
    pub(super) fn pay(&mut self) -> bool {
        self.is_paid = self.tying.with_budget(TieBudget::pay);
        if !self.is_paid {
            self.tying.counts.ties_over_budget.add_one();
        }
        self.is_paid
    }

    /// The second copy was not sent after all, or one of both was dropped: nothing was done twice.
    pub(super) fn refund(&mut self) {
        if core::mem::take(&mut self.is_paid) {
            self.tying.with_budget(TieBudget::refund);
        }
    }

    pub(crate) fn end(self, end: WatchEnd) {
        if end == WatchEnd::Superseded {
            self.tying.counts.ties_won.add_one();
        }
    }
}

impl Drop for Tied<'_> {
    fn drop(&mut self) {
        if let Some(second) = self.second.take() {
            second.cancel();
        }
    }
}

/// Names, which nobody can foretell: with one, a copy that waits could be dropped.
#[derive(Debug, Default)]
struct TieNames {
    drawn: Vec<u64>,
}

impl TieNames {
    /// `None` where the system has no randomness to give.
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
    fn no_name_comes_twice() {
        let mut names = TieNames::default();
        let drawn: BTreeSet<_> = (0..DRAWN_AT_ONCE * 3)
            .filter_map(|_| names.draw().map(|name| name.0))
            .collect();
        assert_eq!(drawn.len(), DRAWN_AT_ONCE * 3);
    }
}
