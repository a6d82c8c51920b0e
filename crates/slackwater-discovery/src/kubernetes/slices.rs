//! `EndpointSlice`s as an API server writes them, and what is kept of them.
//!
//! Everything in a slice is the cluster's word and may be anything. What does not fit is left out:
//! an address that is none, a port without a number, a name or a zone that is too long. Of an
//! endpoint's addresses only the first counts, as in kube-proxy; hints are reduced to whether they
//! name the place of this proxy, so a kept endpoint has a bounded size.

use core::fmt;
use core::net::IpAddr;
use core::num::NonZeroU16;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use slackwater_config::{PodPort, Zone};
use std::collections::BTreeMap;

/// The most endpoints of one service, over all slices.
pub(super) const ENDPOINTS_MAX: usize = 10_000;
/// The most slices of one service; also empty ones count.
pub(super) const SLICES_MAX: usize = 10_000;
/// The most ports of a slice; more are ignored, as the API has the same limit.
const PORTS_MAX: usize = 100;
/// The longest name that is kept, in bytes. RFC 1123 subdomain.
const NAME_BYTES_MAX: usize = 253;

/// The annotation of the bookmark after the last slice of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A list of slices.
#[derive(Deserialize)]
pub(super) struct List {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default, deserialize_with = "items")]
    pub(super) items: Vec<Object>,
}

/// One line of a watch.
#[derive(Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) object: Object,
}

/// A slice, a bookmark, or the status of an error.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    address_type: Option<String>,
    #[serde(default, deserialize_with = "endpoints")]
    endpoints: Vec<RawEndpoint>,
    #[serde(default, deserialize_with = "ports")]
    ports: Vec<RawPort>,
    #[serde(default)]
    pub(super) code: Option<u16>,
    #[serde(default)]
    pub(super) message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) resource_version: Option<String>,
    #[serde(default, rename = "continue")]
    pub(super) next_page: Option<String>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

impl Metadata {
    /// Whether this bookmark ends the initial events of a streaming list.
    pub(super) fn ends_initial_events(&self) -> bool {
        let end = (self.annotations.as_ref()).and_then(|all| all.get(INITIAL_EVENTS_END));
        end.is_some_and(|value| value == "true")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEndpoint {
    #[serde(default)]
    addresses: Option<Vec<String>>,
    #[serde(default)]
    conditions: Option<Conditions>,
    #[serde(default)]
    hints: Option<Hints>,
    #[serde(default)]
    target_ref: Option<TargetRef>,
    #[serde(default)]
    zone: Option<String>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    #[serde(default)]
    ready: Option<bool>,
    #[serde(default)]
    serving: Option<bool>,
    #[serde(default)]
    terminating: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hints {
    #[serde(default)]
    for_zones: Option<Vec<Named>>,
    #[serde(default)]
    for_nodes: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct TargetRef {
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    port: Option<i64>,
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    app_protocol: Option<String>,
}

/// Reads the slices of a list; one more than fits shows that there are too many.
fn items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Object>, D::Error> {
    deserializer.deserialize_any(Collect::of(SLICES_MAX + 1, |_| true))
}

/// Reads endpoints with an address; one more than fits shows that there are too many.
fn endpoints<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RawEndpoint>, D::Error> {
    let has_address = |it: &RawEndpoint| it.addresses.as_ref().is_some_and(|all| !all.is_empty());
    deserializer.deserialize_any(Collect::of(ENDPOINTS_MAX + 1, has_address))
}

fn ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RawPort>, D::Error> {
    deserializer.deserialize_any(Collect::of(PORTS_MAX, |_| true))
}

/// Reads a list or `null`, and keeps a bounded number of its elements: a short text of many empty
/// elements would take a lot of memory.
struct Collect<T> {
    max: usize,
    is_kept: fn(&T) -> bool,
}

impl<T> Collect<T> {
    const fn of(max: usize, is_kept: fn(&T) -> bool) -> Self {
        Self { max, is_kept }
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Collect<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < self.max {
            match list.next_element()? {
                Some(element) if (self.is_kept)(&element) => kept.push(element),
                Some(_) => (),
                None => return Ok(kept),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept)
    }
}

/// The place of this proxy in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnPlace {
    pub(super) zone: Zone,
    pub(super) node: Option<String>,
}

/// What an endpoint's hints say of a kind of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// There is no hint.
    Absent,
    /// The hints name the place of this proxy.
    Own,
    /// The hints name other places alone.
    Other,
}

impl Hint {
    fn of(named: Option<&[Named]>, own: Option<&str>) -> Self {
        match named {
            None | Some([]) => Self::Absent,
            Some(named) if named.iter().any(|it| Some(it.name.as_str()) == own) => Self::Own,
            Some(_) => Self::Other,
        }
    }
}

/// The kind of a slice's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
    /// Host names (`FQDN`), or a kind that is not known.
    Other,
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlicePort {
    /// The name; empty if the service's only port has none.
    pub(super) name: String,
    pub(super) number: NonZeroU16,
    pub(super) is_tcp: bool,
    pub(super) app_protocol: Option<String>,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) ip: IpAddr,
    /// The pod's name.
    pub(super) pod: Option<String>,
    pub(super) zone: Zone,
    pub(super) is_ready: bool,
    pub(super) is_serving: bool,
    pub(super) is_terminating: bool,
    pub(super) node_hint: Hint,
    pub(super) zone_hint: Hint,
}

/// What is kept of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) family: Family,
    pub(super) ports: Vec<SlicePort>,
    pub(super) endpoints: Vec<Endpoint>,
}

impl Slice {
    /// Reduces an object to what is kept.
    pub(super) fn of(object: Object, place: &OwnPlace) -> Self {
        let family = match object.address_type.as_deref() {
            Some("IPv4") => Family::V4,
            Some("IPv6") => Family::V6,
            _ => Family::Other,
        };
        let endpoints = object.endpoints.into_iter();
        let endpoints = endpoints.filter_map(|raw| Endpoint::of(raw, family, place));
        Self {
            family,
            ports: object.ports.into_iter().filter_map(SlicePort::of).collect(),
            endpoints: endpoints.collect(),
        }
    }

    /// The port of this name or number, of any protocol.
    pub(super) fn port(&self, wanted: &PodPort) -> Option<&SlicePort> {
        self.ports.iter().find(|port| port.is(wanted))
    }

    /// The TCP port of this name or number. A port of UDP may have the same number, and come first.
    pub(super) fn tcp_port(&self, wanted: &PodPort) -> Option<&SlicePort> {
        let mut ports = self.ports.iter();
        ports.find(|port| port.is_tcp && port.is(wanted))
    }
}

impl SlicePort {
    fn of(raw: RawPort) -> Option<Self> {
        let number = u16::try_from(raw.port?).ok().and_then(NonZeroU16::new)?;
        Some(Self {
            name: raw.name.map_or_else(|| Some(String::new()), short)?,
            number,
            is_tcp: raw.protocol.is_none_or(|protocol| protocol == "TCP"),
            app_protocol: raw.app_protocol.and_then(short),
        })
    }

    fn is(&self, wanted: &PodPort) -> bool {
        match wanted {
            PodPort::Number(number) => self.number == *number,
            PodPort::Name(name) => self.name == *name,
        }
    }
}

impl Endpoint {
    fn of(raw: RawEndpoint, family: Family, place: &OwnPlace) -> Option<Self> {
        let ip: IpAddr = raw.addresses?.first()?.parse().ok()?;
        let is_of_family = match family {
            Family::V4 => ip.is_ipv4(),
            Family::V6 => ip.is_ipv6(),
            Family::Other => false,
        };
        // A condition that is absent has the value for clients that do not know it.
        let conditions = raw.conditions.unwrap_or_default();
        let hints = raw.hints.unwrap_or_default();
        is_of_family.then(|| Self {
            ip,
            pod: raw
                .target_ref
                .and_then(|target| target.name)
                .and_then(short),
            zone: (raw.zone.and_then(|zone| Zone::new(&zone))).unwrap_or_default(),
            is_ready: conditions.ready.unwrap_or(true),
            is_serving: conditions.serving.unwrap_or(true),
            is_terminating: conditions.terminating.unwrap_or(false),
            node_hint: Hint::of(hints.for_nodes.as_deref(), place.node.as_deref()),
            zone_hint: Hint::of(hints.for_zones.as_deref(), place.zone.name()),
        })
    }
}

/// The text, unless it is too long for a name.
pub(super) fn short(text: String) -> Option<String> {
    (text.len() <= NAME_BYTES_MAX).then_some(text)
}

/// The slices of a service, by their names.
#[derive(Debug, Default)]
pub(super) struct Slices {
    by_name: BTreeMap<String, Slice>,
    endpoints: usize,
}

impl Slices {
    /// Adds a slice, or replaces the one of this name.
    ///
    /// # Errors
    ///
    /// Fails if there are too many. The slices are then incomplete.
    pub(super) fn put(&mut self, name: String, slice: Slice) -> Result<(), String> {
        self.endpoints += slice.endpoints.len();
        let before = self.by_name.insert(name, slice);
        self.endpoints -= before.map_or(0, |before| before.endpoints.len());
        if self.endpoints > ENDPOINTS_MAX {
            return Err(format!(
                "the service has {} endpoints and more, expected at most {ENDPOINTS_MAX}",
                self.endpoints
            ));
        }
        if self.by_name.len() > SLICES_MAX {
            return Err(format!(
                "the service has more than {SLICES_MAX} EndpointSlices"
            ));
        }
        Ok(())
    }

    /// Removes a slice. Returns whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let before = self.by_name.remove(name);
        self.endpoints -= before.as_ref().map_or(0, |before| before.endpoints.len());
        before.is_some()
    }

    /// Whether there is no slice.
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The slices with their names, in the order of the names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Slice)> + Clone {
        (self.by_name.iter()).map(|(name, slice)| (name.as_str(), slice))
    }
}
