//! A query in flight: the core's ticket, kept so that it ends exactly once.
//!
//! The caller that holds the [`Lease`] carries the query. [`Lease::finish`] reports how it ended.
//! Dropping the lease reports [`Outcome::Dropped`], so a cancelled future, a panic or a forgotten
//! branch never leaves a query in flight.

use super::balancer::Balancer;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_core::policy::{Outcome, Pick, PickReason, PooledView, Ticket};
use slackwater_core::{Instant, LoadReport, ReplicaId, Rif};

/// Why a replica was picked: a [`Pick`] without its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PickView {
    /// The replica that was picked.
    pub replica: ReplicaId,
    /// The rule that decided.
    pub reason: PickReason,
    /// Reports with this RIF or more were hot; `None` if none was.
    pub rif_limit: Option<Rif>,
    /// How many reports there were to choose from.
    pub candidates: u16,
    /// The chosen report, as it was before this query was added to it.
    pub chosen: Option<PooledView>,
    /// The second-best replica.
    pub runner_up: Option<ReplicaId>,
    /// Time spent probing for this query; zero unless the policy probes synchronously. `[S4]`
    pub probing: Duration,
}

impl PickView {
    /// A pick that no report decided.
    pub const fn without_report(replica: ReplicaId, reason: PickReason) -> Self {
        Self {
            replica,
            reason,
            rif_limit: None,
            candidates: 0,
            chosen: None,
            runner_up: None,
            probing: Duration::ZERO,
        }
    }
}

/// A query on its way to a replica.
#[must_use = "dropping the lease ends the query as dropped"]
pub struct Lease {
    balancer: Balancer,
    addr: SocketAddr,
    view: PickView,
    /// Present until the query ends.
    ticket: Option<Ticket>,
}

impl Lease {
    #[inline]
    pub(super) fn new(balancer: &Balancer, addr: SocketAddr, pick: Pick) -> Self {
        Self {
            balancer: balancer.clone(),
            addr,
            view: PickView {
                replica: pick.ticket.replica(),
                reason: pick.reason,
                rif_limit: pick.rif_limit,
                candidates: pick.candidates,
                chosen: pick.chosen,
                runner_up: pick.runner_up,
                probing: pick.probing,
            },
            ticket: Some(pick.ticket),
        }
    }

    /// Where the query goes.
    pub const fn replica(&self) -> ReplicaId {
        self.view.replica
    }

    /// When the query was picked, on the balancer's clock.
    pub fn picked_at(&self) -> Instant {
        // The ticket is there as long as the lease exists.
        self.ticket.as_ref().map_or(Instant::EPOCH, Ticket::sent_at)
    }

    /// The replica's address for queries.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The rule that decided.
    pub const fn reason(&self) -> PickReason {
        self.view.reason
    }

    /// Why the query goes to this replica.
    pub const fn view(&self) -> &PickView {
        &self.view
    }

    /// Reports that the response's head has arrived. Latency ends now, while the query stays in
    /// flight until the lease ends. `outcome` comes from the head: `Success`, `Failed` or
    /// `PushedBack`. Only the first call counts. `[T1]`
    ///
    /// Returns the time on the balancer's clock, which saves the caller a read.
    pub fn head_ready(&mut self, outcome: Outcome) -> Instant {
        match &mut self.ticket {
            Some(ticket) => self.balancer.head_ready(ticket, outcome),
            None => self.balancer.now(),
        }
    }

    /// Passes on the load report that came with the replica's response. Few policies use it; others
    /// ignore it.
    pub fn handle_carried_report(&self, report: &LoadReport) {
        self.balancer.carried_report(self.view.replica, report);
    }

    /// Ends the query. Returns the time on the balancer's clock, which saves the caller a read.
    #[inline]
    pub fn finish(mut self, outcome: Outcome) -> Instant {
        match self.ticket.take() {
            Some(ticket) => self.balancer.query_done(ticket, outcome),
            None => self.balancer.now(),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.balancer.query_done(ticket, Outcome::Dropped);
        }
    }
}
