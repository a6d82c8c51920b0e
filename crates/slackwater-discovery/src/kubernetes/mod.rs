//! Fleets in a cluster: the ready pods of a service, by its `EndpointSlice`s.
//!
//! The slices are listed once and then watched, as every client of the API does: by a streaming
//! list where the server has it, otherwise by pages and a watch from their version. Bookmarks and
//! the end of a watch count as answers, so a fleet is as old as the last word of the server. A
//! version that is too old (410) leads to a new list; everything else that goes wrong is reported,
//! and tried again later. The fleet stays meanwhile.
//!
//! | | file |
//! |---|---|
//! | what is kept of a slice | `slices` |
//! | which endpoints get requests | `rules` |
//! | requests, statuses and deadlines | `api` |
//! | the lines of a watch | `lines` |
//! | waits between failures | `backoff` |
//! | from answers to the slices of now | `follower` |

mod api;
mod backoff;
mod follower;
mod lines;
mod rules;
mod slices;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use super::remarks::Remarks;
use super::usable::sift;
use super::{Fleet, Source};
use api::Api;
use core::net::SocketAddr;
use core::num::NonZeroU16;
use follower::SliceFollower;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rules::{NoPort, Rules, Selected, select};
use rustls::pki_types::ServerName;
use slackwater_config::{
    ClusterAccess, KubernetesService, KubernetesSettings, OwnAddresses, PodPort, ReplicaConfig,
    ReplicaProtocol, ReplicaSettings, Zone,
};
use slices::{Family, OwnPlace};

/// Follows the pods of a service.
#[derive(Debug)]
pub struct KubernetesSource {
    namespace: String,
    basis: KubernetesBasis,
    follower: SliceFollower,
    /// Whether the server has answered to the last call, so that a failure is about its answer.
    has_answered: bool,
    remarks: Remarks,
}

/// Everything that decides which fleets a source reports, except for the cluster itself. A source
/// of an equal basis can take the place of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubernetesBasis {
    access: ClusterAccess,
    /// The service with its namespace.
    service: KubernetesService,
    place: OwnPlace,
    rules: Rules,
    server_name: ServerName<'static>,
    protocol: ReplicaProtocol,
    has_tls: bool,
    own: OwnAddresses,
}

/// What a source of pods is made from.
#[derive(Clone, Debug)]
pub struct KubernetesSetup<'s> {
    /// The service whose pods are followed.
    pub service: &'s KubernetesService,
    /// The cluster, and the node of this proxy.
    pub cluster: &'s KubernetesSettings,
    /// The zone of this proxy.
    pub zone: &'s Zone,
    /// How replicas are connected to. Their certificates must be valid for the service's name
    /// (`web.shop.svc`), unless these settings name another.
    pub replica: &'s ReplicaSettings,
    /// The service's own port for probes; `None`: as the cluster's settings say.
    pub probe_port: Option<NonZeroU16>,
    /// Addresses that are left out.
    pub own: OwnAddresses,
}

impl KubernetesSource {
    /// Makes a source; nothing is connected yet. `seed` is for the waits.
    ///
    /// # Errors
    ///
    /// Fails if the service's namespace is not known.
    pub fn new(
        access: ClusterAccess,
        setup: KubernetesSetup<'_>,
        seed: u64,
    ) -> Result<Self, String> {
        let namespace = access.namespace_of(setup.service, setup.cluster);
        let namespace = namespace.map_err(|mistakes| mistakes.in_a_line())?;
        Self::over(Api::new(access), namespace, setup, seed)
    }

    fn over(
        api: Api,
        namespace: String,
        setup: KubernetesSetup<'_>,
        seed: u64,
    ) -> Result<Self, String> {
        let KubernetesSetup {
            service,
            cluster,
            zone,
            replica,
            probe_port,
            own,
        } = setup;
        let tls = replica.tls.as_ref();
        let own_name = || ServerName::try_from(format!("{}.{namespace}.svc", service.name)).ok();
        let server_name = tls.and_then(|tls| tls.server_name.clone());
        let server_name = server_name
            .or_else(own_name)
            .ok_or_else(|| format!("{service} is no name that a certificate can have"))?;
        let place = OwnPlace {
            zone: zone.clone(),
            node: cluster.node.clone(),
        };
        let probe_port = probe_port.map(PodPort::Number);
        let rules = Rules {
            port: service.port.clone(),
            probe_port: probe_port.or_else(|| cluster.probe_port.clone()),
            topology: cluster.topology,
        };
        let basis = KubernetesBasis {
            access: api.access().clone(),
            service: KubernetesService {
                namespace: Some(namespace.clone()),
                ..service.clone()
            },
            place: place.clone(),
            rules,
            server_name,
            protocol: replica.protocol,
            has_tls: tls.is_some(),
            own,
        };
        Ok(Self {
            follower: SliceFollower::new(api, &namespace, &service.name, place, seed),
            namespace,
            basis,
            has_answered: false,
            remarks: Remarks::default(),
        })
    }

    pub(crate) const fn basis(&self) -> &KubernetesBasis {
        &self.basis
    }

    async fn look_up(&mut self) -> Result<Fleet, String> {
        self.has_answered = false;
        self.follower.next().await?;
        self.has_answered = true;
        self.fleet()
    }

    /// The fleet of the slices of now.
    fn fleet(&mut self) -> Result<Fleet, String> {
        let slices = self.follower.slices();
        if slices.is_empty() {
            return Err(format!(
                "the namespace {} has no EndpointSlice of a service {}; look whether the service \
                 exists and has a selector",
                self.namespace, self.basis.service.name
            ));
        }
        let mut remarks: Vec<String> = (slices.iter())
            .filter(|(_, slice)| slice.family == Family::Other)
            .map(|(name, _)| {
                format!("EndpointSlice ignored: {name} is of another type than IPv4 and IPv6")
            })
            .collect();
        // One line stands for all slices of such a service.
        remarks.truncate(1);
        let selected = select(&slices.iter().map(|(_, slice)| slice), &self.basis.rules);
        let selected = selected.map_err(|NoPort(ports)| {
            format!(
                "the EndpointSlices of {} have no TCP port {}; they have: {ports}",
                self.basis.service, self.basis.rules.port
            )
        })?;
        remarks.extend(self.protocol_remark(&selected));
        let found = selected.len();
        let (usable, left_out) = sift(&self.basis.own, selected, |selected| selected.address);
        if usable.is_empty() && found > 0 {
            return Err(format!(
                "{} has no usable address: {left_out}",
                self.basis.service
            ));
        }
        if !left_out.is_empty() {
            remarks.push(format!("address ignored: {left_out}"));
        }
        let fleet = Fleet::new(usable.iter().map(|selected| self.replica(selected)));
        self.remarks.log(&self.name(), remarks);
        Ok(fleet)
    }

    /// A remark if the port names another protocol than the configuration.
    fn protocol_remark(&self, selected: &[Selected<'_>]) -> Option<String> {
        let named = selected.iter().find_map(|selected| selected.app_protocol)?;
        let (protocol, has_tls) = (self.basis.protocol, self.basis.has_tls);
        let remedy = match named {
            "kubernetes.io/h2c" | "h2c" if protocol != ReplicaProtocol::H2c || has_tls => {
                "replica.protocol = \"h2c\""
            }
            "grpc" | "http2" if protocol != ReplicaProtocol::H2c => {
                "replica.protocol = \"h2c\", or \"h2\" with [replica.tls]"
            }
            "https" | "kubernetes.io/wss" if !has_tls => "[replica.tls]",
            _ => return None,
        };
        Some(format!(
            "the port's appProtocol is {named}, and the configuration says {}; set {remedy} if the \
             pods do not answer",
            protocol.as_str(has_tls)
        ))
    }

    fn replica(&self, selected: &Selected<'_>) -> ReplicaConfig {
        let address = selected.address;
        let name = match &selected.endpoint.pod {
            Some(pod) => format!("{pod}@{address}"),
            None => address.to_string(),
        };
        let port = selected.probe_port.map_or(address.port(), NonZeroU16::get);
        ReplicaConfig {
            name,
            address,
            probe_address: SocketAddr::new(address.ip(), port),
            server_name: self.basis.server_name.clone(),
            weight: 1,
            tier: 0,
            zone: selected.endpoint.zone.clone(),
        }
    }
}

impl Source for KubernetesSource {
    fn name(&self) -> String {
        format!("kubernetes {}", self.basis.service)
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Fleet, String>> {
        self.look_up().boxed()
    }

    fn is_awaited(&self) -> bool {
        true
    }

    fn has_answered(&self) -> bool {
        self.has_answered
    }
}
