//! Selects the endpoints of a service that get requests, by kube-proxy's rules and without I/O.
//!
//! They follow `CategorizeEndpoints` and `topologyModeFromHints` of kube-proxy
//! (`pkg/proxy/topology.go`, 1.37) for services of type cluster. Ready endpoints are used. If none
//! is ready, those are that terminate and still serve. Hints count only if every ready endpoint has
//! them and one names the place of this proxy: hints for nodes first, then those for zones. Of two
//! families one is used, which kube-proxy does not decide.

use super::slices::{Endpoint, Family, Hint, Slice, SlicePort};
use core::net::SocketAddr;
use core::num::NonZeroU16;
use slackwater_config::{PodPort, Topology};
use std::collections::BTreeMap;

/// The name of the port for probes that needs no configuration.
const PROBE_PORT: &str = "slackwater-probe";

/// How many times as many endpoints of IPv6 as of IPv4 are not enough to use IPv6.
const V6_FACTOR: usize = 2;

/// What is wanted of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// The port for requests.
    pub(super) port: PodPort,
    /// The port for probes; `None`: the slice's port `slackwater-probe`, if it has one.
    pub(super) probe_port: Option<PodPort>,
    pub(super) topology: Topology,
}

/// An endpoint that gets requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selected<'s> {
    pub(super) address: SocketAddr,
    pub(super) endpoint: &'s Endpoint,
    /// The port for probes; `None`: the one for requests.
    pub(super) probe_port: Option<NonZeroU16>,
    pub(super) app_protocol: Option<&'s str>,
}

/// No slice with endpoints has the port. The text lists the ports that they have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoPort(pub(super) String);

/// Selects endpoints, in the order of their addresses. The list is empty if none can serve.
///
/// # Errors
///
/// Fails if there are endpoints, and none has the port.
pub(super) fn select<'s>(
    slices: &(impl Iterator<Item = &'s Slice> + Clone),
    rules: &Rules,
) -> Result<Vec<Selected<'s>>, NoPort> {
    let usable = slices
        .clone()
        .filter(|slice| slice.family != Family::Other && !slice.endpoints.is_empty());
    let with_port = |slice: &'s Slice| {
        let port = slice.tcp_port(&rules.port)?;
        Some((slice, port))
    };
    let found: Vec<_> = usable.clone().filter_map(with_port).collect();
    if found.is_empty() && usable.clone().next().is_some() {
        return Err(NoPort(ports_of(usable)));
    }
    let mut by_address = BTreeMap::<SocketAddr, Selected<'s>>::new();
    for (slice, port) in found {
        let probe_port = probe_port(slice, rules);
        for endpoint in &slice.endpoints {
            let address = SocketAddr::new(endpoint.ip, port.number.get());
            let selected = Selected {
                address,
                endpoint,
                probe_port,
                app_protocol: port.app_protocol.as_deref(),
            };
            // While an endpoint moves between slices it may be in both, one of them outdated.
            let known = by_address.get(&address);
            if known.is_none_or(|known| rank(known.endpoint) < rank(endpoint)) {
                by_address.insert(address, selected);
            }
        }
    }
    let is_v6 = uses_v6(&by_address);
    by_address.retain(|address, _| address.is_ipv6() == is_v6);
    let all = || by_address.values().map(|selected| selected.endpoint);
    let is_used: fn(&Endpoint) -> bool = if all().any(|endpoint| endpoint.is_ready) {
        match rules.topology {
            Topology::Hints => by_hints(all()),
            Topology::Ignore => |endpoint| endpoint.is_ready,
        }
    } else {
        |endpoint| endpoint.is_serving && endpoint.is_terminating
    };
    by_address.retain(|_, selected| is_used(selected.endpoint));
    Ok(by_address.into_values().collect())
}

/// Whether the addresses of IPv6 are used. A pod of two families is in slices of both, so usually
/// each family has all pods, and IPv4 is used. The cluster changes the slices of the families one
/// after the other, so only a large difference means that IPv4 lacks pods: then IPv6 has more than
/// twice as many that can be used.
fn uses_v6(by_address: &BTreeMap<SocketAddr, Selected<'_>>) -> bool {
    let count = |least: u8, is_v6: bool| {
        let all = by_address.iter();
        all.filter(|(address, selected)| {
            address.is_ipv6() == is_v6 && rank(selected.endpoint) >= least
        })
        .count()
    };
    // Ready endpoints decide; without any, those that still serve; without those, any.
    let of_rank = |least| (count(least, false), count(least, true));
    let counts = [2, 1, 0].map(of_rank);
    let decides = counts.iter().find(|(v4, v6)| v4 + v6 > 0);
    decides.is_some_and(|(v4, v6)| *v6 > V6_FACTOR * v4)
}

/// How much an endpoint can be used: not at all, if no other can be, or always.
fn rank(endpoint: &Endpoint) -> u8 {
    match endpoint {
        Endpoint { is_ready: true, .. } => 2,
        Endpoint {
            is_serving: true,
            is_terminating: true,
            ..
        } => 1,
        _ => 0,
    }
}

/// The ready endpoints that the hints leave.
fn by_hints<'s>(all: impl Iterator<Item = &'s Endpoint> + Clone) -> fn(&Endpoint) -> bool {
    let ready = all.filter(|endpoint| endpoint.is_ready);
    let decides = |hint: fn(&Endpoint) -> Hint| {
        let mut hints = ready.clone().map(hint);
        hints.clone().all(|hint| hint != Hint::Absent) && hints.any(|hint| hint == Hint::Own)
    };
    if decides(|endpoint| endpoint.node_hint) {
        |endpoint| endpoint.is_ready && endpoint.node_hint == Hint::Own
    } else if decides(|endpoint| endpoint.zone_hint) {
        |endpoint| endpoint.is_ready && endpoint.zone_hint == Hint::Own
    } else {
        |endpoint| endpoint.is_ready
    }
}

fn probe_port(slice: &Slice, rules: &Rules) -> Option<NonZeroU16> {
    match &rules.probe_port {
        Some(PodPort::Number(number)) => Some(*number),
        Some(name) => slice.port(name).map(|port| port.number),
        None => {
            let mut ports = slice.ports.iter();
            let own = ports.find(|port| port.name == PROBE_PORT);
            own.map(|port| port.number)
        }
    }
}

fn ports_of<'s>(slices: impl Iterator<Item = &'s Slice>) -> String {
    const SHOWN_MAX: usize = 8;
    let shown = |port: &SlicePort| match port.name.as_str() {
        "" => port.number.to_string(),
        name => format!("{name} ({})", port.number),
    };
    let mut ports: Vec<_> = slices
        .flat_map(|slice| slice.ports.iter().filter(|port| port.is_tcp).map(shown))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports.truncate(SHOWN_MAX);
    ports.join(", ")
}

#[cfg(test)]
mod tests;
