//! A client of xDS without I/O: endpoints (EDS), by their own name or by that of a cluster (CDS),
//! over an aggregated stream (ADS).
//!
//! There is no socket, no clock, no randomness and no `async` here. The stream's owner passes what
//! has arrived and the time to [`Client`], and sends what comes out. So the protocol runs under any
//! runtime, in a test without one, and under a fuzzer.
//!
//! Everything that comes from a control plane is limited, and a mistake in it is reported with the
//! resource and the field. A resource that is wrong, absent, removed or expired never replaces a
//! good one: the client reports why, and its owner decides.
//!
//! | | module |
//! |---|---|
//! | subscriptions, versions, nonces, ACK and NACK, deadlines | [`client`] |
//! | an EDS resource as a list of endpoints | [`assignment`] |
//! | a CDS resource, as far as it leads to endpoints and chooses a policy | [`cluster`] |
//! | the policy that a cluster chooses | [`policy`] |
//! | messages of gRPC on a stream | [`frame`] |
//! | waits between attempts to connect | [`backoff`] |
//! | gRPC's bootstrap file | [`bootstrap`] |
//!
//! Left out on purpose: listeners and routes (LDS, RDS), and the rest of a cluster, which are the
//! object model of Envoy; load reports (LRS).

#![forbid(unsafe_code)]

pub mod assignment;
pub mod backoff;
pub mod bootstrap;
pub mod client;
pub mod cluster;
mod content;
mod fleet_name;
pub mod frame;
mod messages;
mod node;
pub mod policy;
mod policy_config;
mod response;
mod wire;

pub use assignment::{Assignment, Endpoint};
pub use backoff::Backoff;
pub use bootstrap::Bootstrap;
pub use client::{Client, Mode, Report};
pub use cluster::{Cluster, ClusterEndpoints};
pub use content::{BadResource, brief, shown};
pub use fleet_name::FleetName;
pub use node::{Locality, Node};
pub use policy::NamedPolicy;
pub use policy_config::{PolicyCheck, PolicyConfig, PolicyMistake};

/// Type URL of the resources of EDS.
pub const EDS_TYPE: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// Type URL of the resources of CDS.
pub const CDS_TYPE: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// Path of the method of the aggregated stream, state of the world.
pub const ADS_PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// Path of the method of the aggregated stream, incremental.
pub const DELTA_ADS_PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
