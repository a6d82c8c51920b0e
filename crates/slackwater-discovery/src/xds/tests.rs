//! Tests of a control plane's sources without a peer; `go/grpc/xdstest` has those with one.

use super::*;
use crate::Discovery;
use crate::testing::tls::server_config;
use crate::testing::{Folder, holding, whole};
use core::net::IpAddr;
use serde_json::json;
use slackwater_config::XdsSettings;
use slackwater_config::tls::testing::Authority;
use slackwater_config::tls::{ClientTls, HttpVersion};
use slackwater_xds::{Assignment, Node, PolicyConfig, Report};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn plane(server: Option<&str>) -> ControlPlane {
    plane_over(server, ClientTls::default())
}

fn plane_over(server: Option<&str>, tls: ClientTls) -> ControlPlane {
    let settings = XdsSettings {
        server: server.and_then(slackwater_config::Endpoint::parse),
        tls,
        ..XdsSettings::default()
    };
    ControlPlane::start(settings, Node::default(), 1)
}

/// The fleet of the EDS resource `web`.
fn web() -> FleetName {
    FleetName::Endpoints("web".to_owned())
}

fn source(plane: &ControlPlane, name: FleetName) -> XdsSource {
    let own = OwnAddresses::new([([127, 0, 0, 1], 8080).into()]);
    XdsSource::new(plane, name, NonZeroU16::new(9000), None, own)
}

fn endpoint(ip: [u8; 4], port: u16) -> Endpoint {
    Endpoint {
        address: SocketAddr::new(IpAddr::from(ip), port),
        weight: 3,
        tier: 2,
        zone: "eu-1".into(),
        probe_port: None,
    }
}

fn without_policy(assignment: Assignment) -> Accepted {
    Accepted {
        assignment: Arc::new(assignment),
        policy: None,
    }
}

#[tokio::test]
async fn endpoints_become_replicas() {
    let plane = plane(None);
    let mut source = source(&plane, web());
    let with_port = Endpoint {
        probe_port: NonZeroU16::new(7),
        ..endpoint([10, 0, 0, 2], 80)
    };
    let assignment = Assignment {
        endpoints: vec![
            endpoint([10, 0, 0, 1], 80),
            with_port,
            endpoint([127, 0, 0, 1], 8080),
            endpoint([0, 0, 0, 0], 80),
        ],
        left_out: 0,
        remarks: vec!["policy.drop_overloads".to_owned()],
    };
    let fleet = source.take(&without_policy(assignment)).expect("usable");
    let probes = fleet.replicas().iter();
    let probes: Vec<_> = probes.map(|it| it.probe_address.to_string()).collect();
    assert_eq!(probes, ["10.0.0.1:9000", "10.0.0.2:7"]);
    let first = &fleet.replicas()[0];
    assert_eq!((first.weight, first.tier), (3, 2));
    assert_eq!(first.zone.name(), Some("eu-1"));
    assert_eq!(first.server_name, IpAddr::from([10, 0, 0, 1]).into());
    assert_eq!(source.remarks.last().len(), 2, "{:?}", source.remarks);
    let none = Assignment {
        endpoints: vec![endpoint([127, 0, 0, 1], 8080)],
        ..Assignment::default()
    };
    let why = source.take(&without_policy(none));
    let why = why.expect_err("the proxy itself");
    assert!(
        why.starts_with("the resource has no usable address: 127.0.0.1:8080"),
        "{why}"
    );
    let empty = source
        .take(&Accepted::default())
        .expect("the guard decides");
    assert!(empty.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_is_away_is_reported_and_tried_again() {
    let plane = plane(None);
    let mut source = source(&plane, web());
    for _ in 0..3 {
        let why = source.next().await.expect_err("no server");
        assert_eq!(
            why,
            "the control plane cannot be reached: no server is configured"
        );
    }
    let (again, name) = source.control_plane().expect("its own");
    assert_eq!(name, web());
    assert!(!again.state(&web()).is_connected);
}

#[tokio::test(start_paused = true)]
async fn sources_of_one_resource_share_its_subscription() {
    let plane = plane(None);
    let (mut one, mut other) = (source(&plane, web()), source(&plane, web()));
    assert!(one.next().await.is_err());
    assert!(other.next().await.is_err());
    drop(one);
    assert!(other.next().await.is_err());
    let discovery = Discovery::follow("web", other, whole(), None, holding(&[1]));
    discovery.spoken().await;
    let state = discovery.state();
    assert_eq!(state.source, "xds web");
    assert!(state.xds.is_some_and(|xds| xds.streams == 0));
    assert_eq!(discovery.fleet().len(), 1);
    assert!(discovery.control_plane().is_some());
    assert!(discovery.first_answer().is_some(), "a failure is no answer");
}

/// The fleet of the cluster `web`.
fn web_cluster() -> FleetName {
    FleetName::Cluster("web".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_fails_leaves_its_fleet_as_it_was() {
    let plane = plane(None);
    let by_cluster = source(&plane, web_cluster());
    let _by_resource = source(&plane, web());
    assert_eq!(by_cluster.name(), "xds cluster web");
    let (_, name) = by_cluster.control_plane().expect("its own");
    assert_eq!(name, web_cluster());
    let discovery = Discovery::follow("web", by_cluster, whole(), None, holding(&[]));
    let mut fleets = discovery.fleets().subscribe();
    plane.tell(
        &web_cluster(),
        Report::Accepted {
            name: web_cluster(),
            version: "7".to_owned(),
            assignment: Arc::new(Assignment {
                endpoints: vec![endpoint([10, 0, 0, 1], 80)],
                ..Assignment::default()
            }),
            policy: None,
        },
    );
    fleets.changed().await.expect("followed");
    let why = "cluster rejected: type is STRICT_DNS, expected EDS or STATIC";
    plane.tell(
        &web_cluster(),
        Report::Failed {
            name: web_cluster(),
            why: why.to_owned(),
            has_answered: true,
        },
    );
    // The next attempt to connect does not come as long as this is busy.
    while discovery.state().failure.as_deref() != Some(why) {
        tokio::task::yield_now().await;
    }
    let state = discovery.state();
    assert_eq!(state.source, "xds cluster web");
    assert_eq!(state.xds.map(|xds| xds.version), Some("7".to_owned()));
    assert_eq!(plane.state(&web()).version, "", "another fleet");
    assert_eq!(discovery.fleet().len(), 1);
}

/// The policy counts whatever becomes of the fleet, and stays when the control plane fails.
#[tokio::test(start_paused = true)]
async fn a_cluster_chooses_a_policy() {
    let plane = plane(None);
    let (by_cluster, by_resource) = (source(&plane, web_cluster()), source(&plane, web()));
    assert!(by_resource.policy().is_none(), "a resource chooses none");
    let discovery = Discovery::follow("web", by_cluster, whole(), None, holding(&[1]));
    let mut policies = discovery.policy().expect("a cluster's").clone();
    assert_eq!(*policies.borrow(), None, "not known yet");
    let mut chosen = async |config: Option<serde_json::Value>| {
        let fields = config.map(|it| it.as_object().expect("an object").clone());
        let report = Report::Accepted {
            name: web_cluster(),
            version: "1".to_owned(),
            assignment: Arc::default(),
            policy: fields.map(|fields| Arc::new(PolicyConfig::new(fields))),
        };
        plane.tell(&web_cluster(), report);
        policies.changed().await.expect("followed");
        let policy = policies.borrow_and_update().clone().expect("known");
        let keys = policy.keys();
        keys.map(|(key, value)| format!("{key} = {value}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(chosen(None).await, [""; 0], "none");
    let policy = json!({"policy": "prequal", "prequal": {"probeRate": 2}});
    let keys = ["policy = \"prequal\"", "prequal.probe_rate = 2"];
    assert_eq!(chosen(Some(policy)).await, keys);
    let failed = |why: &str| Report::Failed {
        name: web_cluster(),
        why: why.to_owned(),
        has_answered: true,
    };
    plane.tell(&web_cluster(), failed("removed"));
    // The next attempt to connect does not come as long as this is busy.
    while discovery.state().failure.as_deref() != Some("removed") {
        tokio::task::yield_now().await;
    }
    let policy = discovery.policy().and_then(|it| it.borrow().clone());
    assert_eq!(policy.map(|it| it.keys().count()), Some(2), "the last one");
    assert_eq!(chosen(None).await, [""; 0], "none any more");
}

#[tokio::test]
async fn a_policy_is_read_once_for_all_updates_of_endpoints() {
    let plane = plane(None);
    let mut source = source(&plane, web_cluster());
    let config = || {
        let fields = json!({"policy": "prequal", "later": 1});
        Arc::new(PolicyConfig::new(
            fields.as_object().expect("an object").clone(),
        ))
    };
    let (first, equal) = (config(), config());
    let mut read = |config| source.read_policy(config);
    let (once, remarks) = read(Some(&first));
    let (again, same) = read(Some(&first));
    let [once, again] = [once, again].map(|it| it.expect("valid"));
    assert!(Arc::ptr_eq(&once, &again));
    assert_eq!((remarks.len(), &remarks), (1, &same));
    let none = read(None).0.expect("valid");
    assert!(none.is_empty());
    let other = read(Some(&equal)).0.expect("valid");
    assert!(!Arc::ptr_eq(&once, &other));
    assert_eq!(once, other);
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("bound");
    let plane = plane(Some(&format!("http://{address}")));
    let mut source = source(&plane, web());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.expect("a preface");
        // Closing here ends the connection before HTTP/2's settings.
    });
    let why = source.next().await.expect_err("no HTTP/2");
    assert!(why.contains("the control plane"), "{why}");
}

/// A client learns only after its side of the handshake that its certificate is refused.
#[tokio::test]
async fn a_missing_client_certificate_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("bound");
    let (authority, folder) = (Authority::new(), Folder::new("xds-tls"));
    let tls = ClientTls {
        ca: Some(folder.write("ca.crt", &authority.pem())),
        ..ClientTls::default()
    };
    let plane = plane_over(Some(&format!("https://{address}")), tls);
    let mut source = source(&plane, web());
    let mut config = server_config(&authority);
    config.alpn_protocols = vec![HttpVersion::Http2.alpn().to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("accepted");
        // An end of the connection could overtake the alert.
        let refused = acceptor.accept(stream).into_fallible().await.err();
        let _stream = refused.expect("no certificate").1;
        core::future::pending::<()>().await;
    });
    let why = source.next().await.expect_err("no certificate");
    assert!(why.contains("CertificateRequired"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_accepts_and_says_nothing_has_not_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("bound");
    let plane = plane(Some(&format!("http://{address}")));
    let mut source = source(&plane, web());
    for _ in 0..3 {
        let why = source.next().await.expect_err("silence");
        assert_eq!(why, "the control plane did not answer within 10s");
        assert!(!source.has_answered());
        assert!(!plane.state(&web()).is_connected);
    }
}

#[tokio::test]
async fn a_first_resource_without_usable_addresses_is_an_answer() {
    let plane = plane(None);
    let mut source = source(&plane, web());
    let assignment = Assignment {
        endpoints: vec![endpoint([127, 0, 0, 1], 8080)],
        ..Assignment::default()
    };
    let report = Report::Accepted {
        name: web(),
        version: "1".to_owned(),
        assignment: Arc::new(assignment),
        policy: None,
    };
    plane.tell(&web(), report);
    let why = source.next().await.expect_err("the proxy itself");
    assert!(why.contains("no usable address"), "{why}");
    assert!(source.has_answered());
}
