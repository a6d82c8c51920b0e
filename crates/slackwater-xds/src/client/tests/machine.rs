//! A client that is led through steps written in short, and shows what it sends and reports.

use super::sequences::Sequence;
use super::*;
use crate::messages::{
    self, Address, Any, ClusterKind, ClusterLoadAssignment, DeltaDiscoveryRequest,
    DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, EdsClusterConfig, LbEndpoint,
    LocalityLbEndpoints, Resource, ResourceError, ResourceName, SocketAddress, Status,
};
use crate::policy::tests::{list, slackwater};
use prost::Message;
use serde_json::json;

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A fleet as [`fleet_name`] reads it.
    Subscribe(&'static str),
    Unsubscribe(&'static str),
    Open,
    Lose,
    /// A response with this version and nonce, and EDS entries as [`resource`] reads them.
    Answer(&'static str, &'static str, &'static [&'static str]),
    /// Such a response, with CDS entries.
    Clusters(&'static str, &'static str, &'static [&'static str]),
    /// Seconds pass.
    Wait(u64),
}

/// A client, and its time.
pub(super) struct Machine {
    pub(super) client: Client,
    pub(super) now: Duration,
}

impl Machine {
    pub(super) fn new(mode: Mode) -> Self {
        let node = Node {
            id: "us".to_owned(),
            ..Node::default()
        };
        Self {
            client: Client::new(node, mode),
            now: Duration::from_secs(1000),
        }
    }

    /// Does a step, and returns what came out of it.
    pub(super) fn step(&mut self, step: &Step) -> Vec<String> {
        let is_delta = self.client.mode == Mode::Incremental;
        match step {
            Subscribe(name) => {
                let subscribed = self.client.subscribe(self.now, &fleet_name(name));
                subscribed.expect("few");
            }
            Unsubscribe(name) => self.client.unsubscribe(&fleet_name(name)),
            Open => self.client.connected(self.now),
            Lose => {
                self.client.disconnected(self.now, "lost");
            }
            Answer(version, nonce, entries) => self.answer(EDS_TYPE, version, nonce, entries),
            Clusters(version, nonce, entries) => self.answer(CDS_TYPE, version, nonce, entries),
            Wait(seconds) => {
                self.now += Duration::from_secs(*seconds);
                self.client.poll(self.now);
            }
        }
        let mut out = Vec::new();
        while let Some(message) = self.client.poll_transmit() {
            out.push(if is_delta {
                show_delta(&message)
            } else {
                show_whole(&message)
            });
        }
        while let Some(report) = self.client.poll_report() {
            out.push(match report {
                Report::Accepted {
                    name,
                    version,
                    assignment,
                    policy,
                } => {
                    let ports = assignment.endpoints.iter().map(|it| it.address.port());
                    let ports: Vec<_> = ports.collect();
                    let remarks = assignment.remarks.iter().map(|it| format!(" ({it})"));
                    let policy = policy.map(|it| format!(" by {}", it.fields()["policy"]));
                    let policy = policy.unwrap_or_default();
                    let remarks: String = remarks.collect();
                    format!("{name} {version} {ports:?}{remarks}{policy}")
                }
                Report::Failed { name, why, .. } => format!("{name} failed: {why}"),
            });
        }
        out
    }

    pub(super) fn answer(
        &mut self,
        of: &'static str,
        version: &str,
        nonce: &str,
        entries: &[&str],
    ) {
        let message = match self.client.mode {
            Mode::StateOfTheWorld => whole(of, version, nonce, entries),
            Mode::Incremental => delta(of, version, nonce, entries),
        };
        let received = self.client.received(self.now, message.into());
        received.expect("a response");
    }
}

/// `@web` is a cluster, `web` an EDS resource.
pub(super) fn fleet_name(name: &str) -> FleetName {
    match name.strip_prefix('@') {
        Some(cluster) => FleetName::Cluster(cluster.to_owned()),
        None => FleetName::Endpoints(name.to_owned()),
    }
}

/// `web:80` is a resource with an endpoint at this port, `web:0` a bad one, `web:80!7` one with a
/// time to live, `web!7` a heartbeat, `-web` a removal, `?web` an error, `*` an entry of another
/// type. `web=v:80` has its own version. Of clusters, `web>api` leads to the resource `api`,
/// `web~api` does so and has an unused field, `web:80` has its endpoints inside, and `web:1` has a
/// type that is not supported; `web>api+random` also chooses a policy.
pub(super) fn resource(of: &'static str, entry: &str) -> Resource {
    let (entry, ttl) = match entry.split_once('!') {
        Some((entry, ttl)) => (entry, Some(ttl.parse().expect("seconds"))),
        None => (entry, None),
    };
    let end = entry.find([':', '>', '~']).unwrap_or(entry.len());
    let (name, content) = entry.split_at(end);
    let (name, version) = name.split_once('=').unwrap_or((name, ""));
    let port = || content[1..].parse().expect("a port");
    let value = (!content.is_empty()).then(|| match of {
        CDS_TYPE => cluster(name, content).encode_to_vec(),
        _ => assignment(name, port()).encode_to_vec(),
    });
    let any = value.map(|value| Any {
        type_url: of.to_owned(),
        value: value.into(),
    });
    Resource {
        version: version.to_owned(),
        name: name.to_owned(),
        any: if name == "*" {
            Some(Any::default())
        } else {
            any
        },
        ttl: ttl.map(|seconds| messages::Duration { seconds, nanos: 0 }),
    }
}

pub(super) fn cluster(name: &str, content: &str) -> messages::Cluster {
    let (content, policy) = match content.split_once('+') {
        Some((content, policy)) => (content, Some(slackwater(&json!({"policy": policy})))),
        None => (content, None),
    };
    let (kind, rest) = content.split_at(1);
    let of_type = |number, port: Option<u32>| messages::Cluster {
        name: name.to_owned(),
        kind: Some(ClusterKind::Type(number)),
        load_balancing_policy: policy.clone().map(|policy| list(vec![policy])),
        load_assignment: port.map(|port| assignment("any", port).encode_to_vec().into()),
        ..messages::Cluster::default()
    };
    match (kind, rest) {
        (":", "1") => of_type(1, None),
        (":", port) => of_type(0, Some(port.parse().expect("a port"))),
        (kind, resource) => messages::Cluster {
            eds_cluster_config: Some(EdsClusterConfig {
                eds_config: None,
                service_name: resource.to_owned(),
            }),
            lb_policy: i32::from(kind == "~"),
            ..of_type(3, None)
        },
    }
}

pub(super) fn assignment(name: &str, port: u32) -> ClusterLoadAssignment {
    let address = SocketAddress {
        protocol: 0,
        address: "10.0.0.1".to_owned(),
        port_value: Some(port),
    };
    let endpoint = LbEndpoint {
        endpoint: Some(messages::Endpoint {
            address: Some(Address {
                socket_address: Some(address),
            }),
        }),
        ..LbEndpoint::default()
    };
    ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![endpoint],
            ..LocalityLbEndpoints::default()
        }],
        policy: None,
    }
}

fn errors(entries: &[&str]) -> Vec<ResourceError> {
    let names = entries.iter().filter_map(|entry| entry.strip_prefix('?'));
    let error = |name: &str| ResourceError {
        resource_name: Some(ResourceName {
            name: name.to_owned(),
        }),
        error_detail: Some(Status {
            code: 7,
            message: "not for you".to_owned(),
        }),
    };
    names.map(error).collect()
}

fn plain<'e>(of: &'static str, entries: &'e [&'e str]) -> impl Iterator<Item = Resource> + 'e {
    let entries = entries.iter().filter(|it| !it.starts_with(['-', '?']));
    entries.map(move |entry| resource(of, entry))
}

pub(super) fn whole(of: &'static str, version: &str, nonce: &str, entries: &[&str]) -> Vec<u8> {
    let wrapper = "type.googleapis.com/envoy.service.discovery.v3.Resource";
    let any = |resource: Resource| match (&resource.ttl, &resource.any) {
        (None, Some(any)) => any.clone(),
        _ => Any {
            type_url: wrapper.to_owned(),
            value: resource.encode_to_vec().into(),
        },
    };
    let response = DiscoveryResponse {
        version_info: version.to_owned(),
        resources: plain(of, entries).map(any).collect(),
        type_url: of.to_owned(),
        nonce: nonce.to_owned(),
        resource_errors: errors(entries),
    };
    response.encode_to_vec()
}

pub(super) fn delta(of: &'static str, version: &str, nonce: &str, entries: &[&str]) -> Vec<u8> {
    let removed = entries.iter().filter_map(|entry| entry.strip_prefix('-'));
    let response = DeltaDiscoveryResponse {
        system_version_info: version.to_owned(),
        resources: plain(of, entries).collect(),
        type_url: of.to_owned(),
        nonce: nonce.to_owned(),
        removed_resources: removed.map(str::to_owned).collect(),
        resource_errors: errors(entries),
    };
    response.encode_to_vec()
}

fn nack(error: Option<Status>) -> String {
    error.map_or_else(String::new, |error| {
        format!(" NACK {}: {}", error.code, error.message)
    })
}

fn show_whole(message: &[u8]) -> String {
    let request = DiscoveryRequest::decode(message).expect("a request");
    let of = shown_type(&request.type_url);
    let node = request
        .node
        .map_or_else(String::new, |node| format!(" from {}", node.id));
    format!(
        "{of}v{} n{} {}{node}{}",
        request.version_info,
        request.response_nonce,
        request.resource_names.join(","),
        nack(request.error_detail)
    )
}

fn show_delta(message: &[u8]) -> String {
    let request = DeltaDiscoveryRequest::decode(message).expect("a request");
    let of = shown_type(&request.type_url);
    let mut parts = Vec::new();
    if !request.response_nonce.is_empty() {
        parts.push(format!("n{}", request.response_nonce));
    }
    let names = |sign, names: Vec<String>| {
        let names = names.into_iter().map(move |name| format!("{sign}{name}"));
        names.collect::<Vec<_>>()
    };
    parts.extend(names('+', request.resource_names_subscribe));
    parts.extend(names('-', request.resource_names_unsubscribe));
    let known = request.initial_resource_versions.into_iter();
    parts.extend(known.map(|(name, version)| format!("{name}={version}")));
    parts.extend(request.node.map(|node| format!("from {}", node.id)));
    format!("{of}{}{}", parts.join(" "), nack(request.error_detail))
}

fn shown_type(type_url: &str) -> &'static str {
    match type_url {
        CDS_TYPE => "cds ",
        EDS_TYPE => "",
        other => panic!("{other} is requested"),
    }
}

pub(super) fn play(mode: Mode, (name, steps): &Sequence) {
    let mut machine = Machine::new(mode);
    for (number, (step, expected)) in steps.iter().enumerate() {
        let out = machine.step(step);
        let expected: Vec<_> = expected
            .iter()
            .map(|it| it.replace("{bad}", BAD_PORT))
            .collect();
        assert_eq!(out, expected, "{name}, step {number}: {step:?}");
    }
}

pub(super) const BAD_PORT: &str = "endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value is 0, expected 1 to 65535";
