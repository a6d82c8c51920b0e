//! The client's side: who gets the next query, among real sockets.
//!
//! [`Balancer`] puts a core [`Policy`](slackwater_core::policy::Policy) among threads, clocks and
//! sockets: it picks, it hands out [`Lease`]s that end exactly once, and it passes probes to a
//! [`Prober`]. [`Balance`] is the same thing as a tower service over discovered services.
//! [`Balancer::with_default_policy`] has the policy that `slackwater serve` has by default.
//!
//! | | file |
//! |---|---|
//! | the handle that everyone shares | `balancer` |
//! | what the lock guards | `driver`, `replicas`, `rounds`, `reported` |
//! | new replicas, which get less at first | `warm_up` |
//! | a query that is out | `lease` |
//! | a query that waits for its probes (synchronous mode) | `round` |
//! | timeouts | `drive` |
//! | probes that leave | `outgoing` |
//! | probes on the wire | `probe` |
//! | the tower service | `balance` |
//! | one request to every shard | `fan_out` |
//! | what `{:?}` shows | `shown` |
//!
//! Absent on purpose: connections to replicas (the service that is balanced has them), retries (a
//! layer of their own), health beyond what probes say.

pub mod balance;
mod balancer;
mod drive;
mod driver;
pub mod fan_out;
mod lease;
mod outgoing;
pub mod probe;
mod replicas;
mod reported;
mod round;
mod rounds;
mod shown;
mod warm_up;

pub use balance::Balance;
pub use balancer::{Balancer, Overview, Picked};
pub use drive::{Drive, DriveGuard};
pub use lease::{Lease, PickView};
pub use probe::{
    HttpProber, HttpProberConfig, NoProber, ProbeCounters, ProbeToSend, ProbeToken, Prober,
    Refused, Reports, UdpProber, UdpProberConfig,
};
pub use replicas::{InsertError, ReplicaAddrs};
pub use round::Round;
pub use slackwater_core::report::Reported;
