//! Why connections end, on either side, counted by reason.

use super::Count;
use core::array::from_fn;
use std::io;

/// Why a client's connection ended. Where there are several reasons the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// The client closed it, or stopped taking what it had asked for.
    Client,
    /// It failed.
    Failed,
    /// After an answer, as the client had asked, or as the rest of its request was not read.
    Answered,
    /// It carried nothing for too long.
    Idle,
    /// A request's head did not come in time.
    HeadLate,
    /// The client took nothing for too long.
    Stalled,
    /// The client took back too many requests.
    Resets,
    /// What came is no HTTP.
    Protocol,
    /// The replica broke off in the midst of a response, and there is no other way to say so.
    Broken,
    /// A tunnel ended.
    Tunnel,
    /// There was no TLS to be had with the client, or not in time.
    Handshake,
    /// The PROXY header that it had to begin with did not come, or may not come from there.
    ProxyHeader,
    /// The process ends, or the worker does; in order.
    Drain,
    /// The time for that was over.
    CutOff,
}

impl ClientEnd {
    pub(crate) const ALL: [Self; 14] = [
        Self::Client,
        Self::Failed,
        Self::Answered,
        Self::Idle,
        Self::HeadLate,
        Self::Stalled,
        Self::Resets,
        Self::Protocol,
        Self::Broken,
        Self::Tunnel,
        Self::Handshake,
        Self::ProxyHeader,
        Self::Drain,
        Self::CutOff,
    ];

    /// Of a connection that there is nothing more to be read from.
    pub(crate) const fn of_read(read: &io::Result<bool>) -> Self {
        match read {
            Ok(_) => Self::Client,
            Err(_) => Self::Failed,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Failed => "failed",
            Self::Answered => "answered",
            Self::Idle => "idle",
            Self::HeadLate => "head_late",
            Self::Stalled => "stalled",
            Self::Resets => "resets",
            Self::Protocol => "protocol",
            Self::Broken => "broken",
            Self::Tunnel => "tunnel",
            Self::Handshake => "handshake",
            Self::ProxyHeader => "proxy_header",
            Self::Drain => "drain",
            Self::CutOff => "cut_off",
        }
    }
}

/// Why a connection to a replica ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplicaEnd {
    /// It carried nothing for too long.
    Idle,
    /// Enough were kept that carried nothing.
    Surplus,
    /// The replica closed it, or sent something unasked, while it carried nothing.
    Closed,
    /// After a response, as the replica had asked, or as either side of the exchange was not complete.
    Answered,
    /// It failed, or what came was no response.
    Failed,
    /// The replica was silent for too long.
    Late,
    /// What it carried was not wanted any more.
    #[default]
    GivenUp,
    /// A tunnel ended.
    Tunnel,
    /// The replica left the fleet, or the service its place.
    Retired,
}

impl ReplicaEnd {
    pub(crate) const ALL: [Self; 9] = [
        Self::Idle,
        Self::Surplus,
        Self::Closed,
        Self::Answered,
        Self::Failed,
        Self::Late,
        Self::GivenUp,
        Self::Tunnel,
        Self::Retired,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Surplus => "surplus",
            Self::Closed => "closed",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Late => "late",
            Self::GivenUp => "given_up",
            Self::Tunnel => "tunnel",
            Self::Retired => "retired",
        }
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
