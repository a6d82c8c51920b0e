//! A CDS resource (`Cluster`), as far as it leads to endpoints and chooses a policy.
//!
//! Only two types of clusters are read: EDS, whose endpoints are a resource of their own, and
//! STATIC, which has them inside. A field that means something to a balancer and is not used makes
//! a remark; a cluster whose endpoints cannot be found this way is a mistake.

use crate::CDS_TYPE;
use crate::assignment::Assignment;
use crate::content::{BadResource, Content, shown};
use crate::fleet_name::FleetName;
use crate::messages::{self, ClusterKind, ConfigSpecifier};
use crate::policy::NamedPolicy;
use crate::policy_config::PolicyCheck;
use crate::wire;
use bytes::Bytes;
use prost::Message;
use std::sync::Arc;

/// Values of `Cluster.DiscoveryType`.
mod discovery {
    pub(super) const STATIC: i32 = 0;
    pub(super) const EDS: i32 = 3;
    /// All of them, by their numbers.
    pub(super) const NAMES: [&str; 5] =
        ["STATIC", "STRICT_DNS", "LOGICAL_DNS", "EDS", "ORIGINAL_DST"];
}

/// Values of `Cluster.LbPolicy`, by their numbers. 4 is reserved. The first one is the default, and
/// the last one leaves the choice to `load_balancing_policy`.
const POLICIES: [&str; 8] = [
    "ROUND_ROBIN",
    "LEAST_REQUEST",
    "RING_HASH",
    "RANDOM",
    "4",
    "MAGLEV",
    "CLUSTER_PROVIDED",
    "LOAD_BALANCING_POLICY_CONFIG",
];

/// Fields that change which replica gets a request, or how, and are not used. All are messages.
const IGNORED: [(u32, &str); 12] = [
    (22, "lb_subset_config"),
    (8, "health_checks"),
    (19, "outlier_detection"),
    (10, "circuit_breakers"),
    (9, "max_requests_per_connection"),
    (24, "transport_socket"),
    (43, "transport_socket_matches"),
    (59, "transport_socket_matcher"),
    (14, "http2_protocol_options"),
    (36, "typed_extension_protocol_options"),
    (21, "upstream_bind_config"),
    (42, "lrs_server"),
];

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Where its endpoints are.
    pub endpoints: ClusterEndpoints,
    /// The policy that it chooses; `None` if it chooses none that is known.
    pub policy: Option<NamedPolicy>,
    /// What it says and the client does not use, in sentences: at most one for each field.
    pub remarks: Vec<String>,
}

/// Where the endpoints of a cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterEndpoints {
    /// In the EDS resource of this name, which [fits](FleetName::fits), on the same stream.
    Resource(String),
    /// In the cluster itself.
    Inline(Arc<Assignment>),
}

impl Content for Cluster {
    const TYPE: &'static str = CDS_TYPE;
    const NOUN: &'static str = "cluster";
    const NAME_FIELD: &'static str = "name";
    const IS_WHOLE: bool = true;

    fn read(bytes: Bytes) -> Result<Self, BadResource> {
        Self::read(bytes)
    }

    fn check(&self, check: PolicyCheck) -> Result<(), BadResource> {
        self.policy.as_ref().map_or(Ok(()), |it| it.check(check))
    }
}

impl Cluster {
    /// Reads an encoded `Cluster`.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn read(bytes: Bytes) -> Result<Self, BadResource> {
        let mut remarks = Vec::new();
        for (number, field) in IGNORED {
            let count = wire::count(&bytes, &[number]);
            if count.map_err(|error| BadResource::whole(&error))? > 0 {
                remarks.push(format!("{field} is not supported and ignored"));
            }
        }
        let message = messages::Cluster::decode(bytes);
        let message = message.map_err(|error| BadResource::whole(&error))?;
        remarks.extend(remark_policy(message.lb_policy));
        let policy = match &message.load_balancing_policy {
            None => None,
            Some(list) => {
                let found = NamedPolicy::read(list.clone())?;
                if found.is_none() {
                    remarks.push(
                        "load_balancing_policy has no policy \"slackwater\" and is ignored"
                            .to_owned(),
                    );
                }
                found
            }
        };
        let endpoints = match &message.kind {
            None | Some(ClusterKind::Type(discovery::STATIC)) => read_inline(&message)?,
            Some(ClusterKind::Type(discovery::EDS)) => {
                ClusterEndpoints::Resource(read_resource_name(&message)?)
            }
            Some(ClusterKind::Type(other)) => {
                let name = usize::try_from(*other).ok();
                let name = name.and_then(|number| discovery::NAMES.get(number));
                let found = name.map_or_else(|| other.to_string(), |name| (*name).to_owned());
                let told = format!("is {found}, expected EDS or STATIC");
                return Err(BadResource::new("type", told));
            }
            Some(ClusterKind::Custom(custom)) => {
                let found = shown(&custom.name);
                let told = format!("is {found:?}, expected the type EDS or STATIC");
                return Err(BadResource::new("cluster_type", told));
            }
        };
        Ok(Self {
            endpoints,
            policy,
            remarks,
        })
    }

    /// The endpoints of the cluster with the remarks about both.
    pub(crate) fn remark_on(&self, assignment: &Arc<Assignment>) -> Arc<Assignment> {
        if self.remarks.is_empty() {
            return Arc::clone(assignment);
        }
        let remarks = self.remarks.iter().chain(&assignment.remarks);
        Arc::new(Assignment {
            remarks: remarks.cloned().collect(),
            ..Assignment::clone(assignment)
        })
    }
}

/// The remark about a policy other than the default.
fn remark_policy(policy: i32) -> Option<String> {
    // The field that the last one refers to is read for itself.
    if policy == 0 || policy == 7 {
        return None;
    }
    let name = usize::try_from(policy).ok();
    let name = name.and_then(|number| POLICIES.get(number));
    let name = name.map_or_else(|| policy.to_string(), |name| (*name).to_owned());
    Some(format!("lb_policy {name} is not supported and ignored"))
}

fn read_inline(message: &messages::Cluster) -> Result<ClusterEndpoints, BadResource> {
    const FIELD: &str = "load_assignment";
    let Some(bytes) = &message.load_assignment else {
        let told = "is missing, expected one in a cluster of the type STATIC";
        return Err(BadResource::new(FIELD, told));
    };
    let read = Assignment::read(bytes.clone());
    let read = read.map_err(|mistake| mistake.within(FIELD))?;
    Ok(ClusterEndpoints::Inline(Arc::new(read)))
}

fn read_resource_name(message: &messages::Cluster) -> Result<String, BadResource> {
    const NAME_MAX: usize = FleetName::BYTES_MAX;
    let config = message.eds_cluster_config.as_ref();
    let source = config.and_then(|config| config.eds_config.as_ref());
    match source.map(|source| &source.specifier) {
        None | Some(Some(ConfigSpecifier::Ads(_) | ConfigSpecifier::SameServer(_))) => (),
        Some(_) => {
            let told = "is neither ads nor self, expected one of them, or nothing";
            return Err(BadResource::new("eds_cluster_config.eds_config", told));
        }
    }
    let (field, name) = match config {
        Some(config) if !config.service_name.is_empty() => {
            ("eds_cluster_config.service_name", &config.service_name)
        }
        _ => ("name", &message.name),
    };
    if FleetName::fits(name) {
        return Ok(name.clone());
    }
    let told = if name.len() > NAME_MAX {
        format!("has {} bytes", name.len())
    } else {
        format!("is {name:?}")
    };
    let told =
        format!("{told}, expected the name of one EDS resource, of 1 to {NAME_MAX} bytes of text");
    Err(BadResource::new(field, told))
}

#[cfg(test)]
mod tests;
