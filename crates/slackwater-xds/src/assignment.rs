//! An EDS resource (`ClusterLoadAssignment`) as a list of endpoints.
//!
//! A mistake is reported with the path of the field. Fields that are not used are skipped. The
//! weights of a tier are relative to each other: those of endpoints within a locality, and those of
//! localities, if any has one.

use crate::EDS_TYPE;
use crate::content::{BadResource, Content, shown};
use crate::messages::{
    ClusterLoadAssignment, DropOverload, Kind, LbEndpoint, LocalityLbEndpoints, Metadata, Policy,
    SocketAddress,
};
use crate::policy_config::PolicyCheck;
use crate::wire;
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU16;
use prost::Message;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most endpoints of a resource.
pub const ENDPOINTS_MAX: usize = 10_000;

/// The highest tier, and the highest `priority` of a locality.
pub const TIER_MAX: u8 = 15;

/// The largest weight.
pub const WEIGHT_MAX: u32 = 65_535;

/// The longest name of a locality's zone, in bytes.
pub const ZONE_BYTES_MAX: usize = 128;

/// What a locality's share is divided into where localities have weights: a number with many
/// divisors, so that the weights of few endpoints become small numbers.
const PARTS: u64 = 65_520;

/// The largest `metadata` of an endpoint, in bytes.
const METADATA_BYTES_MAX: usize = 64 << 10;

/// The key of `filter_metadata` with settings for Slackwater.
const METADATA_KEY: &str = "slackwater";

/// Values of `envoy.config.core.v3.HealthStatus`. UNHEALTHY, DRAINING, TIMEOUT and values that are
/// not known leave an endpoint out, as in gRPC.
mod health {
    pub(super) const UNKNOWN: i32 = 0;
    pub(super) const HEALTHY: i32 = 1;
    pub(super) const DEGRADED: i32 = 5;
}

/// The endpoints of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The endpoints that may get requests, each address once, in the order of the resource.
    pub endpoints: Vec<Endpoint>,
    /// Number of endpoints that are left out: by their health, or because their locality has no
    /// weight beside others that have one.
    pub left_out: usize,
    /// What the resource says and the client does not use, in sentences; few of each kind.
    pub remarks: Vec<String>,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: SocketAddr,
    /// Its share of its tier's requests, relative to the others': 1 to [`WEIGHT_MAX`].
    pub weight: u32,
    /// Its tier: the `priority` of its locality, and one more if it is DEGRADED; 0 to
    /// [`TIER_MAX`].
    pub tier: u8,
    /// The zone of its locality: at most [`ZONE_BYTES_MAX`] printable characters. Empty: it is not
    /// known.
    pub zone: Arc<str>,
    /// The port of its probes, from the key `slackwater.probe_port` of its metadata.
    pub probe_port: Option<NonZeroU16>,
}

impl Content for Assignment {
    const TYPE: &'static str = EDS_TYPE;
    const NOUN: &'static str = "resource";
    const NAME_FIELD: &'static str = "cluster_name";
    const IS_WHOLE: bool = false;

    fn read(bytes: Bytes) -> Result<Self, BadResource> {
        Self::read(bytes)
    }

    fn check(&self, _: PolicyCheck) -> Result<(), BadResource> {
        Ok(())
    }
}

impl Assignment {
    /// Reads an encoded `ClusterLoadAssignment`.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn read(bytes: Bytes) -> Result<Self, BadResource> {
        for path in [&[2][..], &[2, 2], &[4, 2]] {
            let count = wire::count(&bytes, path).map_err(|error| BadResource::whole(&error))?;
            if count > ENDPOINTS_MAX {
                let field = match path {
                    [2] => "endpoints",
                    [4, 2] => "policy.drop_overloads",
                    _ => "endpoints[].lb_endpoints",
                };
                return Err(BadResource::new(
                    field,
                    format_args!("has {count} entries, expected at most {ENDPOINTS_MAX}"),
                ));
            }
        }
        let message =
            ClusterLoadAssignment::decode(bytes).map_err(|error| BadResource::whole(&error))?;
        check_priorities(&message.endpoints)?;
        let mut remarks: Vec<_> = message.policy.iter().flat_map(drops).collect();
        remarks.extend(unknown_zones(&message.endpoints));
        let mut found = Vec::new();
        let mut left_out = 0;
        for (index, locality) in message.endpoints.iter().enumerate() {
            left_out += read_locality(index, locality, &mut found)?;
        }
        let (endpoints, without_weight) = weigh(&found);
        Ok(Self {
            endpoints,
            left_out: left_out + without_weight,
            remarks,
        })
    }
}

/// The most remarks of a kind. They are for people; a few of them are enough.
const REMARKS_MAX: usize = 8;

/// The categories of requests that the control plane wants to be dropped.
fn drops(policy: &Policy) -> Vec<String> {
    let drops = policy.drop_overloads.iter();
    let some = drops.filter(|drop| {
        drop.drop_percentage
            .is_some_and(|share| share.numerator > 0)
    });
    let told = |drop: &DropOverload| {
        let category = shown(&drop.category);
        format!("policy.drop_overloads of category {category:?} is not supported and ignored")
    };
    some.take(REMARKS_MAX).map(told).collect()
}

/// The zones that cannot be used. One is not a reason to reject a fleet.
fn unknown_zones(localities: &[LocalityLbEndpoints]) -> impl Iterator<Item = String> {
    let told = |(index, locality)| {
        let flaw = read_zone(locality).err()?;
        let field = format!("endpoints[{index}].locality.zone");
        Some(format!("{field} {flaw}; it counts as unknown"))
    };
    let all = localities.iter().enumerate().filter_map(told);
    all.take(REMARKS_MAX)
}

fn check_priorities(localities: &[LocalityLbEndpoints]) -> Result<(), BadResource> {
    let mut used = [false; TIER_MAX as usize + 1];
    for (index, locality) in localities.iter().enumerate() {
        let field = || format!("endpoints[{index}].priority");
        let place = usize::try_from(locality.priority).unwrap_or(usize::MAX);
        let Some(used) = used.get_mut(place) else {
            let found = locality.priority;
            let told = format!("is {found}, expected 0 to {TIER_MAX}");
            return Err(BadResource::new(&field(), told));
        };
        *used = true;
    }
    let highest = used.iter().rposition(|used| *used);
    let gap = used.iter().position(|used| !used);
    match (gap, highest) {
        (Some(gap), Some(highest)) if gap < highest => Err(BadResource::new(
            "endpoints[].priority",
            format_args!("leaves out {gap}, expected every number from 0 to {highest}"),
        )),
        _ => Ok(()),
    }
}

/// An endpoint with the weights as they were sent.
struct Found {
    address: SocketAddr,
    tier: u8,
    locality: usize,
    zone: Arc<str>,
    /// 0 if the locality has none.
    locality_weight: u32,
    weight: u32,
    probe_port: Option<NonZeroU16>,
}

/// Adds the endpoints of a locality, and returns how many are left out for their health.
fn read_locality(
    index: usize,
    locality: &LocalityLbEndpoints,
    found: &mut Vec<Found>,
) -> Result<usize, BadResource> {
    let place = format!("endpoints[{index}]");
    if locality.leds_cluster_locality_config.is_some() {
        let field = format!("{place}.leds_cluster_locality_config");
        return Err(BadResource::new(&field, "is not supported"));
    }
    let zone: Arc<str> = read_zone(locality).unwrap_or_default().into();
    let priority = u8::try_from(locality.priority).unwrap_or(TIER_MAX);
    let mut left_out = 0;
    for (number, endpoint) in locality.lb_endpoints.iter().enumerate() {
        let read = read_endpoint(endpoint).map_err(|(field, told)| {
            BadResource::new(&format!("{place}.lb_endpoints[{number}].{field}"), told)
        })?;
        let tier = match endpoint.health_status {
            health::UNKNOWN | health::HEALTHY => priority,
            health::DEGRADED => (priority + 1).min(TIER_MAX),
            _ => {
                left_out += 1;
                continue;
            }
        };
        let (address, weight, probe_port) = read;
        found.push(Found {
            address,
            tier,
            locality: index,
            zone: Arc::clone(&zone),
            locality_weight: (locality.load_balancing_weight).map_or(0, |weight| weight.value),
            weight,
            probe_port,
        });
    }
    Ok(left_out)
}

/// The zone of a locality, which its endpoints share. Region and sub-zone are not used.
fn read_zone(locality: &LocalityLbEndpoints) -> Result<&str, String> {
    let zone = (locality.locality.as_ref()).map_or("", |locality| locality.zone.as_str());
    let told = if zone.len() > ZONE_BYTES_MAX {
        format!("has {} bytes", zone.len())
    } else if zone.chars().any(char::is_control) {
        format!("is {zone:?}")
    } else {
        return Ok(zone);
    };
    Err(format!(
        "{told}, expected at most {ZONE_BYTES_MAX} printable characters"
    ))
}

type FieldError = (&'static str, String);

fn read_endpoint(
    endpoint: &LbEndpoint,
) -> Result<(SocketAddr, u32, Option<NonZeroU16>), FieldError> {
    let address = endpoint
        .endpoint
        .as_ref()
        .and_then(|it| it.address.as_ref());
    let address = address.ok_or(("endpoint.address", "is missing".to_owned()))?;
    let address = address.socket_address.as_ref().ok_or((
        "endpoint.address",
        "is not a socket_address, expected one".to_owned(),
    ))?;
    let address = read_address(address)?;
    let weight = endpoint
        .load_balancing_weight
        .map_or(1, |weight| weight.value);
    if weight == 0 {
        let told = "is 0, expected 1 or more".to_owned();
        return Err(("load_balancing_weight", told));
    }
    let probe_port = match &endpoint.metadata {
        Some(metadata) => read_probe_port(metadata)?,
        None => None,
    };
    Ok((address, weight, probe_port))
}

fn read_address(address: &SocketAddress) -> Result<SocketAddr, FieldError> {
    if address.protocol != 0 {
        let told = "is not TCP, expected TCP".to_owned();
        return Err(("endpoint.address.socket_address.protocol", told));
    }
    let ip: IpAddr = address.address.parse().map_err(|_| {
        // Not longer in the log and in a NACK than a host name can be.
        let found: String = address.address.chars().take(253).collect();
        let told = format!("is {found:?}, expected an IP address");
        ("endpoint.address.socket_address.address", told)
    })?;
    let port = "endpoint.address.socket_address.port_value";
    let found = (address.port_value).ok_or_else(|| (port, "is missing".to_owned()))?;
    let number = u16::try_from(found).ok().and_then(NonZeroU16::new);
    let number = number.ok_or_else(|| (port, format!("is {found}, expected 1 to 65535")))?;
    Ok(SocketAddr::new(ip, number.get()))
}

fn read_probe_port(metadata: &Bytes) -> Result<Option<NonZeroU16>, FieldError> {
    if metadata.len() > METADATA_BYTES_MAX {
        let found = metadata.len();
        let told = format!("has {found} bytes, expected at most {METADATA_BYTES_MAX}");
        return Err(("metadata", told));
    }
    let metadata = Metadata::decode(metadata.clone());
    let metadata = metadata.map_err(|error| ("metadata", error.to_string()))?;
    let own = metadata.filter_metadata.get(METADATA_KEY);
    let Some(value) = own.and_then(|own| own.fields.get("probe_port")) else {
        return Ok(None);
    };
    let port = match value.kind {
        // A number of a `Struct` is always a double; a whole one is written without a point.
        Some(Kind::Number(number)) => number.to_string().parse().ok(),
        _ => None,
    };
    match port {
        Some(port) => Ok(Some(port)),
        None => Err((
            "metadata.filter_metadata.slackwater.probe_port",
            "is not a port, expected a whole number from 1 to 65535".to_owned(),
        )),
    }
}

/// Sums of the endpoints of a locality in one tier.
#[derive(Default)]
struct Sums {
    locality_weight: u64,
    weights: u64,
}

/// Turns the weights of localities and endpoints into one weight for each endpoint. Returns the
/// endpoints, and how many have no share.
///
/// A locality's share is its weight in proportion to the other localities of the tier, however many
/// endpoints it has. If no locality of the tier has a weight, the endpoints' weights alone count.
fn weigh(found: &[Found]) -> (Vec<Endpoint>, usize) {
    let mut localities: BTreeMap<(u8, usize), Sums> = BTreeMap::new();
    for endpoint in found {
        let key = (endpoint.tier, endpoint.locality);
        let sums = localities.entry(key).or_default();
        sums.locality_weight = endpoint.locality_weight.into();
        sums.weights += u64::from(endpoint.weight);
    }
    let mut tiers: BTreeMap<u8, usize> = BTreeMap::new();
    for ((tier, _), sums) in &localities {
        *tiers.entry(*tier).or_default() += usize::from(sums.locality_weight > 0);
    }
    // Shares as fractions of 2^64, so that the largest of a tier can become `PARTS`.
    let share = |endpoint: &Found| {
        let own = u128::from(endpoint.weight);
        let with_weight = tiers.get(&endpoint.tier).copied().unwrap_or_default();
        let sums = localities.get(&(endpoint.tier, endpoint.locality));
        match (with_weight, sums) {
            (0, _) | (_, None) => own << 32,
            (_, Some(sums)) if sums.locality_weight == 0 => 0,
            (1, _) => own << 32,
            (_, Some(sums)) => {
                ((own * u128::from(sums.locality_weight)) << 32) / u128::from(sums.weights.max(1))
            }
        }
    };
    let mut largest: BTreeMap<u8, u128> = BTreeMap::new();
    for endpoint in found {
        let largest = largest.entry(endpoint.tier).or_default();
        *largest = share(endpoint).max(*largest);
    }
    let scaled = |endpoint: &Found| {
        let largest = largest
            .get(&endpoint.tier)
            .copied()
            .unwrap_or_default()
            .max(1);
        let is_plain = tiers.get(&endpoint.tier).is_none_or(|count| *count < 2)
            && largest >> 32 <= u128::from(WEIGHT_MAX);
        let share = share(endpoint);
        if share == 0 {
            return 0;
        }
        if is_plain {
            return u32::try_from(share >> 32).unwrap_or(WEIGHT_MAX);
        }
        let parts = (share * u128::from(PARTS) + largest / 2) / largest;
        u32::try_from(parts).unwrap_or(WEIGHT_MAX).max(1)
    };
    let mut weights: Vec<u32> = found.iter().map(scaled).collect();
    let mut divisors: BTreeMap<u8, u32> = BTreeMap::new();
    for (endpoint, weight) in found.iter().zip(&weights) {
        let divisor = divisors.entry(endpoint.tier).or_default();
        *divisor = gcd(*divisor, *weight);
    }
    for (endpoint, weight) in found.iter().zip(&mut weights) {
        *weight /= divisors
            .get(&endpoint.tier)
            .copied()
            .unwrap_or_default()
            .max(1);
    }
    let without_share = weights.iter().filter(|weight| **weight == 0).count();
    let mut taken = std::collections::BTreeSet::new();
    let endpoints = found.iter().zip(weights);
    let endpoints = endpoints
        .filter(|(endpoint, weight)| *weight > 0 && taken.insert(endpoint.address))
        .map(|(endpoint, weight)| Endpoint {
            address: endpoint.address,
            weight,
            tier: endpoint.tier,
            zone: Arc::clone(&endpoint.zone),
            probe_port: endpoint.probe_port,
        });
    (endpoints.collect(), without_share)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
