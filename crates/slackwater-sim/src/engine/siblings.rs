//! What the workers of one proxy share: the replicas' answers, and where queries go. It takes no
//! time, as between threads of one machine.

use super::Engine;
use super::query::slot_number;
use core::ops::Range;
use slackwater_core::policy::Event;
use slackwater_core::{Instant, LoadReport, ReplicaId};

impl Engine {
    /// Shares a replica's answer to a client's probe.
    #[inline]
    pub(super) fn share_answer(&mut self, client: u32, replica: u32, report: &LoadReport) {
        let Some(siblings) = self.siblings.filter(|siblings| siblings.answers) else {
            return;
        };
        let Some(id) = self.replicas.at(replica as usize).id else {
            return; // no client has it any more
        };
        let now = Instant::from_nanos(self.now);
        for number in others(client, siblings.workers, self.clients) {
            if let Some(sibling) = self.balancing.client(number) {
                sibling.handle(now, Event::SiblingReport(id, report));
            }
        }
    }

    /// Shares that a client sends a query to a replica.
    #[inline]
    pub(super) fn share_query(&mut self, client: u32, replica: ReplicaId) {
        let Some(siblings) = self.siblings.filter(|siblings| siblings.queries) else {
            return;
        };
        let now = Instant::from_nanos(self.now);
        for number in others(client, siblings.workers, self.clients) {
            if let Some(sibling) = self.balancing.client(number) {
                sibling.handle(now, Event::SiblingQueries(replica, 1));
            }
        }
    }

    /// Charges the client that sends a query for what the query counts beyond one request, as if
    /// other workers had sent it. The policy counts one itself.
    pub(super) fn charge(&mut self, client: u32, to: ReplicaId, weight: u32) {
        if weight > 1
            && let Some(client) = self.balancing.client(client)
        {
            let now = Instant::from_nanos(self.now);
            client.handle(now, Event::SiblingQueries(to, weight - 1));
        }
    }
}

/// Returns the other workers of a client's proxy.
fn others(client: u32, workers: usize, clients: usize) -> impl Iterator<Item = u32> {
    let client = client as usize;
    let first = client - client % workers;
    let proxy: Range<usize> = first..(first + workers).min(clients);
    proxy.filter(move |&other| other != client).map(slot_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_adjacent_clients_and_the_last_proxy_may_have_fewer() {
        let of = |client| others(client, 3, 8).collect::<Vec<_>>();
        assert_eq!(of(0), [1, 2]);
        assert_eq!(of(4), [3, 5]);
        assert_eq!(of(5), [3, 4]);
        assert_eq!(of(7), [6]);
        assert_eq!(others(1, 1, 8).count(), 0);
    }
}
