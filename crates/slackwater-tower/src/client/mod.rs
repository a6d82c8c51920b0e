//! The client's side: picks the replica for the next query, with real sockets.
//!
//! [`Balancer`] runs a core [`Policy`](slackwater_core::policy::Policy) with threads, clocks and
//! sockets. It picks replicas, hands out [`Lease`]s that end exactly once, and passes probes to a
//! [`Prober`]. [`Balance`] is the same as a tower service over discovered services.
//! [`Balancer::with_default_policy`] has the policy that `slackwater serve` has by default.
//!
//! | | file |
//! |---|---|
//! | the handle that all callers share | `balancer` |
//! | state under the lock | `driver`, `replicas`, `rounds`, `reported` |
//! | replicas that are warming up | `warm_up` |
//! | a query in flight | `lease` |
//! | a query that waits for its probes (synchronous mode) | `round` |
//! | timeouts | `drive` |
//! | probes that leave | `outgoing` |
//! | probes on the wire | `probe` |
//! | the tower service | `balance` |
//! | one request to every shard | `fan_out` |
//! | what `{:?}` shows | `shown` |
//!
//! Left out on purpose: connections to replicas (the balanced service has them), retries (a layer
//! of their own), health checks beyond probes.

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
