//! Fleets from a control plane, by xDS: each is one resource of the endpoint discovery service, or
//! the endpoints of one cluster, which may also choose a policy.
//!
//! A process has one stream, on which all its services' fleets are. `slackwater_xds` has the
//! protocol, `plane` the stream's task, `stream` its bytes. A control plane that cannot be reached
//! changes nothing; neither does a resource that is rejected, removed or expired.

mod connection;
mod plane;
mod stream;
#[cfg(test)]
mod tests;

pub use plane::ControlPlane;

use super::remarks::Remarks;
use super::usable::sift;
use super::{Fleet, Source};
use core::net::SocketAddr;
use core::num::NonZeroU16;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use plane::{Accepted, Latest, Subscription};
use rustls::pki_types::ServerName;
use slackwater_config::{ClusterPolicy, OwnAddresses, ReplicaConfig, Zone};
use slackwater_xds::{Endpoint, FleetName, PolicyConfig};
use std::sync::Arc;
use tokio::sync::watch;

// A locality's priority is a tier.
const _: () = assert!(slackwater_xds::assignment::TIER_MAX == ReplicaConfig::TIER_MAX);
// A locality's zone is one.
const _: () = assert!(slackwater_xds::assignment::ZONE_BYTES_MAX == Zone::BYTES_MAX);

/// A policy, unless its configuration is wrong, and what is ignored of it.
type PolicyRead = (Option<Arc<ClusterPolicy>>, Vec<String>);

/// Follows one fleet. Dropping it ends its subscription.
#[derive(Debug)]
pub struct XdsSource {
    subscription: Subscription,
    latest: watch::Receiver<Latest>,
    /// Number of the last report that was returned.
    delivered: u64,
    /// Whether the control plane was reached at the last failure.
    has_answered: bool,
    probe_port: Option<NonZeroU16>,
    server_name: Option<ServerName<'static>>,
    own: OwnAddresses,
    remarks: Remarks,
    /// The configuration that was read last, with the policy and the remarks that came of it. Most
    /// reports change the endpoints alone.
    last_read: Option<(Option<Arc<PolicyConfig>>, PolicyRead)>,
    /// The policy that the cluster chooses; `None` until it is known.
    policy: watch::Sender<Option<Arc<ClusterPolicy>>>,
}

impl XdsSource {
    /// Subscribes to a fleet. `probe_port` is the port for probes to endpoints without one in
    /// their metadata; without it, probes go to the endpoint's own port. `server_name` is the name
    /// that certificates must be valid for; by default it is the endpoint's address. Addresses in
    /// `own` are left out.
    pub fn new(
        plane: &ControlPlane,
        name: FleetName,
        probe_port: Option<NonZeroU16>,
        server_name: Option<ServerName<'static>>,
        own: OwnAddresses,
    ) -> Self {
        let (subscription, latest) = plane.subscribe(name);
        Self {
            subscription,
            latest,
            delivered: 0,
            has_answered: false,
            probe_port,
            server_name,
            own,
            remarks: Remarks::default(),
            last_read: None,
            policy: watch::Sender::default(),
        }
    }

    async fn report(&mut self) -> Result<Fleet, String> {
        loop {
            let report = {
                let latest = self.latest.borrow_and_update();
                self.has_answered = latest.has_answered;
                latest.after(self.delivered)
            };
            if let Some((number, report)) = report {
                self.delivered = number;
                self.has_answered |= report.is_ok();
                return report.and_then(|accepted| self.take(&accepted));
            }
            if self.latest.changed().await.is_err() {
                // The control plane's task has ended, with the process.
                return core::future::pending().await;
            }
        }
    }

    /// The policy counts whatever becomes of the fleet.
    fn take(&mut self, accepted: &Accepted) -> Result<Fleet, String> {
        let assignment = &*accepted.assignment;
        let mut remarks = assignment.remarks.clone();
        let (policy, ignored) = self.read_policy(accepted.policy.as_ref());
        remarks.extend(ignored);
        self.policy.send_if_modified(|before| {
            let is_new = policy.is_some() && *before != policy;
            if is_new {
                *before = policy;
            }
            is_new
        });
        let endpoints = assignment.endpoints.clone();
        let (usable, left_out) = sift(&self.own, endpoints, |endpoint| endpoint.address);
        if !left_out.is_empty() {
            if usable.is_empty() {
                return Err(format!("the resource has no usable address: {left_out}"));
            }
            remarks.push(format!("address ignored: {left_out}"));
        }
        self.remarks.log(&self.name(), remarks);
        let replicas = usable.iter().map(|endpoint| self.replica(endpoint));
        Ok(Fleet::new(replicas))
    }

    /// The policy, which is empty if the cluster chooses none, and what is ignored of it.
    fn read_policy(&mut self, config: Option<&Arc<PolicyConfig>>) -> PolicyRead {
        if let Some((before, read)) = &self.last_read
            && before.as_ref().map(Arc::as_ptr) == config.map(Arc::as_ptr)
        {
            return read.clone();
        }
        let read = config.map_or_else(|| Ok(Default::default()), |it| ClusterPolicy::read(it));
        let read = match read {
            Ok((policy, ignored)) => (Some(Arc::new(policy)), ignored),
            // It has passed this check before the cluster was accepted.
            Err(mistake) => {
                let (source, field) = (self.name(), mistake.field);
                tracing::warn!(source, field, "policy unchanged: {}", mistake.message);
                (None, Vec::new())
            }
        };
        self.last_read = Some((config.cloned(), read.clone()));
        read
    }

    fn replica(&self, endpoint: &Endpoint) -> ReplicaConfig {
        let address = endpoint.address;
        let port = endpoint.probe_port.or(self.probe_port);
        let port = port.map_or(address.port(), NonZeroU16::get);
        let own = || address.ip().into();
        ReplicaConfig {
            name: address.to_string(),
            address,
            probe_address: SocketAddr::new(address.ip(), port),
            server_name: self.server_name.clone().unwrap_or_else(own),
            weight: endpoint.weight,
            tier: endpoint.tier,
            zone: Zone::new(&endpoint.zone).unwrap_or_default(),
        }
    }
}

impl Source for XdsSource {
    fn name(&self) -> String {
        format!("xds {}", self.subscription.name())
    }

    fn control_plane(&self) -> Option<(ControlPlane, FleetName)> {
        let plane = self.subscription.plane().clone();
        Some((plane, self.subscription.name().clone()))
    }

    fn policy(&self) -> Option<watch::Receiver<Option<Arc<ClusterPolicy>>>> {
        let is_cluster = matches!(self.subscription.name(), FleetName::Cluster(_));
        is_cluster.then(|| self.policy.subscribe())
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Fleet, String>> {
        self.report().boxed()
    }

    fn is_awaited(&self) -> bool {
        true
    }

    fn has_answered(&self) -> bool {
        self.has_answered
    }
}
