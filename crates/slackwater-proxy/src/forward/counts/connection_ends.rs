//! Why connections end, on either side, counted by reason.

use super::Count;
use core::array::from_fn;
use slackwater_core::named;
use std::io;

named! {
    /// Why a client's connection ended. If there are several reasons, the first one counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum ClientEnd by as_str {
        /// The client closed it, or stopped reading.
        Client = "client",
        /// It failed.
        Failed = "failed",
        /// It ended after an answer, because the client requested that, or because the rest of its
        /// request was not read.
        Answered = "answered",
        /// It was idle for too long.
        Idle = "idle",
        /// A request head did not arrive in time.
        HeadLate = "head_late",
        /// The client read nothing for too long.
        Stalled = "stalled",
        /// The client reset too many requests.
        Resets = "resets",
        /// The data was not HTTP.
        Protocol = "protocol",
        /// The replica broke off during a response, and closing the connection is the only way to
        /// signal that.
        Broken = "broken",
        /// A tunnel ended.
        Tunnel = "tunnel",
        /// The TLS handshake failed, or took too long.
        Handshake = "handshake",
        /// The required PROXY header did not arrive, or is not allowed from that address.
        ProxyHeader = "proxy_header",
        /// The process or the worker shut down; in order.
        Drain = "drain",
        /// The drain time was over.
        CutOff = "cut_off",
    }
}

impl ClientEnd {
    /// Returns why a connection ended that has nothing more to read.
    pub(crate) const fn of_read(read: &io::Result<bool>) -> Self {
        match read {
            Ok(_) => Self::Client,
            Err(_) => Self::Failed,
        }
    }
}

named! {
    /// Why a connection to a replica ended.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum ReplicaEnd by as_str {
        /// It was idle for too long.
        Idle = "idle",
        /// Enough idle connections were kept already.
        Surplus = "surplus",
        /// The replica closed it, or sent unexpected data, while it was idle.
        Closed = "closed",
        /// It ended after a response, because the replica requested that, or because either side of
        /// the exchange was incomplete.
        Answered = "answered",
        /// It failed, or the data was not a response.
        Failed = "failed",
        /// The replica was silent for too long.
        Late = "late",
        /// Its request was abandoned.
        #[default]
        GivenUp = "given_up",
        /// A tunnel ended.
        Tunnel = "tunnel",
        /// The replica left the fleet, or the service was replaced.
        Retired = "retired",
    }
}

/// A worker's ended client connections, by reason.
#[derive(Debug)]
pub(crate) struct ClientEnds([Count; ClientEnd::ALL.len()]);

impl Default for ClientEnds {
    fn default() -> Self {
        Self(from_fn(|_| Count::default()))
    }
}

impl ClientEnds {
    pub(crate) fn add_one(&self, end: ClientEnd) {
        self.0[end as usize].add_one();
    }

    /// Returns the counts in the order of [`ClientEnd::ALL`].
    pub(crate) fn read(&self) -> [u64; ClientEnd::ALL.len()] {
        from_fn(|end| self.0[end].read())
    }
}

/// A worker's ended connections to a service's replicas, by reason.
#[derive(Debug)]
pub struct ReplicaEnds([Count; ReplicaEnd::ALL.len()]);

impl Default for ReplicaEnds {
    fn default() -> Self {
        Self(from_fn(|_| Count::default()))
    }
}

impl ReplicaEnds {
    pub(crate) fn add_one(&self, end: ReplicaEnd) {
        self.0[end as usize].add_one();
    }

    /// Returns the counts in the order of `ReplicaEnd::ALL`.
    pub fn read(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(Count::read);
        ReplicaEnd::ALL
            .map(ReplicaEnd::as_str)
            .into_iter()
            .zip(counts)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_index_and_name() {
        let (clients, replicas) = (ClientEnds::default(), ReplicaEnds::default());
        for (place, end) in ClientEnd::ALL.into_iter().enumerate() {
            clients.add_one(end);
            assert_eq!(clients.read()[place], 1, "{end:?}");
        }
        for (place, end) in ReplicaEnd::ALL.into_iter().enumerate() {
            replicas.add_one(end);
            assert_eq!(replicas.read()[place], (end.as_str(), 1));
        }
        let names = ClientEnd::ALL.map(ClientEnd::as_str);
        assert_eq!(std::collections::BTreeSet::from(names).len(), names.len());
        let names = ReplicaEnd::ALL.map(ReplicaEnd::as_str);
        assert_eq!(std::collections::BTreeSet::from(names).len(), names.len());
    }
}
