//! Why connections end, on either side, counted by reason.

use super::Count;
use core::array::from_fn;
use slackwater_core::named;
use std::io;

named! {
    /// Why a client's connection ended. Where there are several reasons the first one counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum ClientEnd by as_str {
        /// The client closed it, or stopped taking what it had asked for.
        Client = "client",
        /// It failed.
        Failed = "failed",
        /// After an answer, as the client had asked, or as the rest of its request was not read.
        Answered = "answered",
        /// It carried nothing for too long.
        Idle = "idle",
        /// A request's head did not come in time.
        HeadLate = "head_late",
        /// The client took nothing for too long.
        Stalled = "stalled",
        /// The client took back too many requests.
        Resets = "resets",
        /// What came is no HTTP.
        Protocol = "protocol",
        /// The replica broke off in the midst of a response, and there is no other way to say so.
        Broken = "broken",
        /// A tunnel ended.
        Tunnel = "tunnel",
        /// There was no TLS to be had with the client, or not in time.
        Handshake = "handshake",
        /// The PROXY header that it had to begin with did not come, or may not come from there.
        ProxyHeader = "proxy_header",
        /// The process ends, or the worker does; in order.
        Drain = "drain",
        /// The time for that was over.
        CutOff = "cut_off",
    }
}

impl ClientEnd {
    /// Of a connection that there is nothing more to be read from.
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
        /// It carried nothing for too long.
        Idle = "idle",
        /// Enough were kept that carried nothing.
        Surplus = "surplus",
        /// The replica closed it, or sent something unasked, while it carried nothing.
        Closed = "closed",
        /// After a response, as the replica had asked, or as either side of the exchange was not
        /// complete.
        Answered = "answered",
        /// It failed, or what came was no response.
        Failed = "failed",
        /// The replica was silent for too long.
        Late = "late",
        /// What it carried was not wanted any more.
        #[default]
        GivenUp = "given_up",
        /// A tunnel ended.
        Tunnel = "tunnel",
        /// The replica left the fleet, or the service its place.
        Retired = "retired",
    }
}

/// A worker's connections with clients that have ended.
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

    /// By reason, in the order of [`ClientEnd::ALL`].
    pub(crate) fn read(&self) -> [u64; ClientEnd::ALL.len()] {
        from_fn(|end| self.0[end].read())
    }
}

/// A worker's connections to a service's replicas that have ended.
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

    /// By reason, in the order of `ReplicaEnd::ALL`.
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
    fn each_reason_has_a_place_and_a_name_of_its_own() {
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
