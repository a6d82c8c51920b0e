//! Sources of fleets: lists of replicas that change while requests run.
//!
//! A `Source` repeatedly reports the whole fleet, or why it cannot. [`Discovery`] follows one
//! source for the whole process, accepts the lists that a `guard` accepts, and publishes fleets as
//! values. Workers take a fleet when it arrives, and never wait for one. A source that fails
//! changes nothing: the last good fleet stays.
//!
//! | | file |
//! |---|---|
//! | a fleet as a value, and the changes from one to the next | `fleet` |
//! | which lists are accepted | `guard` |
//! | the part of a fleet that this process uses | `subset` |
//! | from a source to its followers | `follow` |
//! | names in the DNS: addresses and services | `dns`, `schedule` |
//! | a file that another program keeps up to date | `file`, `file_watch` |
//! | resources and clusters of a control plane | `xds` |
//! | the pods of a service of a cluster (feature `kubernetes`) | `kubernetes` |
//! | connections to clusters and control planes | `tcp` |
//! | which addresses may be replicas | `usable` |
//! | what a source says in the log | `remarks` |
//!
//! Another kind of source (an orchestrator, a registry) needs one file here, and one key in
//! `slackwater-config`.

mod dns;
mod file;
pub mod file_watch;
mod fleet;
mod follow;
mod guard;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod remarks;
mod schedule;
mod subset;
mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod usable;
mod xds;

pub use dns::{DnsSource, Resolver};
pub use file::FileSource;
pub use fleet::{Fleet, FleetChange};
pub use follow::{Discovery, Rules};
#[cfg(feature = "kubernetes")]
pub use kubernetes::{KubernetesSetup, KubernetesSource};
pub use tcp::detect_loss;
pub use xds::{ControlPlane, XdsSource};

use futures_util::future::BoxFuture;
use slackwater_config::ClusterPolicy;
use slackwater_xds::FleetName;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// Reports the replicas of a fleet.
pub trait Source: Send + 'static {
    /// What the source looks up, for the log and the status: `dns web.internal:8080`.
    fn name(&self) -> String;

    /// When the source reported the initial fleet; `None` if it has not reported one yet.
    fn opened_at(&self) -> Option<SystemTime> {
        None
    }

    /// The control plane that reports the fleet, and its name for it.
    fn control_plane(&self) -> Option<(ControlPlane, FleetName)> {
        None
    }

    /// The policy that the source chooses for the service, now and later; `None` if it never does.
    /// The value is `None` until it is known, and an empty policy if there is none.
    fn policy(&self) -> Option<watch::Receiver<Option<Arc<ClusterPolicy>>>> {
        None
    }

    /// Waits until there is a result: the whole fleet, or why it is unknown now. The first call
    /// looks up immediately, unless the source has [an initial fleet](Self::opened_at). It is
    /// always awaited to its end.
    fn next(&mut self) -> BoxFuture<'_, Result<Fleet, String>>;

    /// Whether a start waits for the first answer, however long that takes, because until then
    /// nothing is known.
    fn is_awaited(&self) -> bool {
        false
    }

    /// Whether the last failure is about an answer, such as that a service does not exist, and not
    /// about the lack of one.
    fn has_answered(&self) -> bool {
        false
    }
}
