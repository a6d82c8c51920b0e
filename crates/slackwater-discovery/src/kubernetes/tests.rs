//! Tests of the source against an API server in memory, with time that is paused: lists, watches
//! and what replicas become of them. What goes wrong is in `faults`; `tls`
//! connects over TLS.

mod faults;
mod tls;

use super::api::{Dial, Stream};
use super::testing::{ApiServer, Sending, endpoint, kubeconfig, list, slice};
use super::*;
use crate::Discovery;
use crate::testing::{Folder, holding};
use core::time::Duration;
use serde_json::{Value, json};
use slackwater_config::Topology;
use std::io;
use tokio::io::duplex;
use tokio::sync::mpsc;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// A source, its API server, and the directory with its kubeconfig and token.
struct Cluster {
    server: ApiServer,
    source: KubernetesSource,
    folder: Folder,
}

fn settings() -> KubernetesSettings {
    KubernetesSettings::default()
}

fn own_zone() -> Zone {
    Zone::new("a").expect("a zone")
}

fn web_service() -> KubernetesService {
    KubernetesService {
        namespace: None,
        name: "web".to_owned(),
        port: PodPort::Name("http".to_owned()),
    }
}

impl Cluster {
    fn new() -> Self {
        Self::with(&settings(), &ReplicaSettings::default(), None)
    }

    fn with(
        settings: &KubernetesSettings,
        replica: &ReplicaSettings,
        probe_port: Option<NonZeroU16>,
    ) -> Self {
        let folder = Folder::new("cluster");
        folder.write("token", "s3cret-1");
        let file = folder.write("config", &kubeconfig("http://127.0.0.1:1"));
        let access = ClusterAccess::read(Some(&file)).expect("a kubeconfig");
        let (pipes, incoming) = mpsc::unbounded_channel();
        let dial: Dial = Box::new(move |_| {
            let (ours, theirs) = duplex(1 << 16);
            let sent = pipes.send(theirs);
            async move {
                sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
                Ok(Box::new(ours) as Box<dyn Stream>)
            }
            .boxed()
        });
        let setup = KubernetesSetup {
            service: &web_service(),
            cluster: settings,
            zone: &own_zone(),
            replica,
            probe_port,
            own: OwnAddresses::new(["10.0.0.99:80".parse().expect("an address")]),
        };
        let namespace = access.namespace_of(setup.service, setup.cluster);
        let namespace = namespace.expect("a namespace");
        let source = KubernetesSource::over(Api::over(access, dial), namespace, setup, 7);
        Self {
            server: ApiServer::in_memory(incoming),
            source: source.expect("a service"),
            folder,
        }
    }

    /// Waits for the source's next result while the server is served.
    async fn next<T>(
        &mut self,
        serve: impl AsyncFnOnce(&mut ApiServer) -> T,
    ) -> (Result<Fleet, String>, T) {
        tokio::join!(self.source.next(), serve(&mut self.server))
    }

    /// A cluster whose source has listed these pods by a streaming list, and watches.
    async fn watching(pods: &[u8]) -> (Self, Sending) {
        let mut cluster = Self::new();
        let (fleet, watch) = cluster
            .next(async |server| {
                let watch = server.asked().await.send(200);
                watch.event("ADDED", &web(5, pods));
                watch.initial_events_end(10);
                watch
            })
            .await;
        assert_eq!(names(&fleet), expected(pods));
        (cluster, watch)
    }

    /// Opens another watch after version 20, with the pod 1.
    async fn watch_again(&mut self) -> Sending {
        let (fleet, watch) = self
            .next(async |server| {
                let asked = server.asked().await;
                assert!(asked.target.ends_with("&resourceVersion=20"));
                asked.send(200)
            })
            .await;
        assert_eq!(names(&fleet), expected(&[1]));
        watch
    }

    /// Lists these pods by pages and opens a watch after version 20.
    async fn list_and_watch(&mut self, pods: &[u8]) -> Sending {
        let (fleet, ()) = self
            .next(async |server| {
                let asked = server.asked().await;
                assert!(!asked.is_watch(), "{}", asked.target);
                asked.answer(200, &list(20, &[web(15, pods)]));
            })
            .await;
        assert_eq!(names(&fleet), expected(pods));
        let (fleet, watch) = self
            .next(async |server| {
                let asked = server.asked().await;
                assert!(asked.target.ends_with("&resourceVersion=20"));
                asked.send(200)
            })
            .await;
        assert_eq!(names(&fleet), expected(pods));
        watch
    }
}

/// The slice of the service `web` with the pods `web-n` at `10.0.0.n`.
fn web(version: u32, pods: &[u8]) -> Value {
    let endpoints = pods
        .iter()
        .map(|n| endpoint(&format!("10.0.0.{n}"), &format!("web-{n}")));
    slice("web-abc", version, 80, &endpoints.collect::<Vec<_>>())
}

fn expected(pods: &[u8]) -> Vec<String> {
    let pods = pods.iter();
    pods.map(|n| format!("web-{n}@10.0.0.{n}:80")).collect()
}

fn names(fleet: &Result<Fleet, String>) -> Vec<String> {
    let replicas = fleet.as_ref().expect("a fleet").replicas().iter();
    replicas.map(|replica| replica.name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_becomes_the_fleet_and_is_followed() {
    let mut cluster = Cluster::new();
    let (fleet, watch) = cluster
        .next(async |server| {
            let asked = server.asked().await;
            let path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices\
                        ?labelSelector=kubernetes.io%2Fservice-name%3Dweb&watch=true\
                        &allowWatchBookmarks=true&timeoutSeconds=";
            let rest = asked.target.strip_prefix(path).expect(path);
            let (span, rest) = rest.split_once('&').expect("parameters");
            assert!((240..300).contains(&span.parse().expect("seconds")));
            assert_eq!(
                rest,
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            );
            assert_eq!(asked.authorization.as_deref(), Some("Bearer s3cret-1"));
            let watch = asked.send(200);
            watch.event("ADDED", &web(5, &[2, 1]));
            watch.event(
                "ADDED",
                &slice("web-def", 6, 8080, &[endpoint("10.0.0.3", "web-3")]),
            );
            watch.initial_events_end(10);
            watch
        })
        .await;
    assert_eq!(
        names(&fleet),
        [
            "web-1@10.0.0.1:80",
            "web-2@10.0.0.2:80",
            "web-3@10.0.0.3:8080"
        ]
    );
    let fleet = fleet.expect("a fleet");
    let replica = &fleet.replicas()[2];
    assert_eq!(replica.probe_address, replica.address);
    assert_eq!(replica.zone, own_zone());
    assert_eq!(replica.server_name.to_str(), "web.shop.svc");
    assert_eq!((replica.weight, replica.tier), (1, 0));
    assert_eq!(cluster.source.name(), "kubernetes shop/web:http");

    // Events that come together are one change.
    let began = Instant::now();
    let (fleet, ()) = cluster
        .next(async |_| {
            watch.event("MODIFIED", &web(11, &[1, 2, 4]));
            watch.event("DELETED", &slice("web-def", 12, 8080, &[]));
        })
        .await;
    assert_eq!(names(&fleet), expected(&[1, 2, 4]));
    assert_eq!(began.elapsed(), Duration::from_millis(50));
    let (fleet, ()) = cluster.next(async |_| watch.bookmark(20)).await;
    assert_eq!(names(&fleet), expected(&[1, 2, 4]), "a bookmark confirms");
}

#[tokio::test(start_paused = true)]
async fn events_that_never_pause_do_not_put_a_change_off() {
    let (mut cluster, watch) = Cluster::watching(&[1]).await;
    let sending = tokio::spawn(async move {
        for version in 11.. {
            watch.event("MODIFIED", &web(version, &[1, 2]));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let began = Instant::now();
    let fleet = cluster.source.next().await;
    assert_eq!(names(&fleet), expected(&[1, 2]));
    assert!(began.elapsed() <= Duration::from_millis(70));
    sending.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_in_time_goes_on_from_its_last_version() {
    let (mut cluster, watch) = Cluster::watching(&[1]).await;
    let (fleet, ()) = cluster.next(async |_| watch.bookmark(33)).await;
    assert_eq!(names(&fleet), expected(&[1]));
    drop(watch);
    let (fleet, ()) = cluster.next(async |_| ()).await;
    assert_eq!(names(&fleet), expected(&[1]), "the end is an answer");
    let (fleet, watch) = cluster
        .next(async |server| {
            let asked = server.asked().await;
            assert!(asked.target.ends_with("&resourceVersion=33"));
            asked.send(200)
        })
        .await;
    assert_eq!(names(&fleet), expected(&[1]), "and so is the next one");
    let (fleet, ()) = cluster
        .next(async |_| watch.event("MODIFIED", &web(40, &[1, 2])))
        .await;
    assert_eq!(names(&fleet), expected(&[1, 2]));
}

#[tokio::test(start_paused = true)]
async fn without_streaming_lists_pages_are_listed_and_then_watched() {
    type Serve = fn(testing::Asked) -> Option<Sending>;
    // Whether the server has said that it has no streaming lists; it is asked for none again.
    let (for_good, once) = (true, false);
    let ways: [(&str, bool, Serve); 8] = [
        ("422", for_good, |asked| {
            asked.refuse(422, "sendInitialEvents is forbidden for watch");
            None
        }),
        ("400", for_good, |asked| {
            asked.refuse(400, "unknown parameter");
            None
        }),
        ("an old etcd", for_good, |asked| {
            let watch = asked.send(200);
            let status = json!({"kind": "Status", "status": "Failure", "code": 500,
                "message": "etcdserver: RequestWatchProgress is not supported"});
            watch.event("ERROR", &status);
            Some(watch)
        }),
        ("an event 422", for_good, |asked| {
            let watch = asked.send(200);
            watch.event("ERROR", &json!({"kind": "Status", "code": 422}));
            Some(watch)
        }),
        ("no mark of the end", for_good, |asked| {
            let watch = asked.send(200);
            watch.event("ADDED", &web(5, &[9]));
            watch.bookmark(6);
            Some(watch)
        }),
        ("an event 503", once, |asked| {
            let watch = asked.send(200);
            watch.event("ERROR", &json!({"kind": "Status", "code": 503}));
            Some(watch)
        }),
        ("silence", once, |asked| Some(asked.send(200))),
        ("an end", once, |asked| {
            drop(asked.send(200));
            None
        }),
    ];
    for (way, is_for_good, serve) in ways {
        let mut cluster = Cluster::new();
        let (fleet, _watch) = cluster
            .next(async |server| {
                let asked = server.asked().await;
                assert!(asked.is_streaming_list(), "{way}");
                let watch = serve(asked);
                let asked = server.asked().await;
                assert!(!asked.is_watch(), "{way}");
                assert!(
                    asked.target.ends_with("%3Dweb&limit=20"),
                    "{}",
                    asked.target
                );
                let mut page = list(7, &[web(5, &[1])]);
                page["metadata"]["continue"] = json!("a/b=");
                asked.answer(200, &page);
                let asked = server.asked().await;
                assert!(asked.target.ends_with("&limit=20&continue=a%2Fb%3D"));
                let more = slice("web-def", 6, 80, &[endpoint("10.0.0.2", "web-2")]);
                asked.answer(200, &list(8, &[more]));
                watch
            })
            .await;
        assert_eq!(names(&fleet), expected(&[1, 2]), "{way}");
        let (fleet, watch) = cluster
            .next(async |server| {
                let asked = server.asked().await;
                assert!(asked.target.ends_with("&resourceVersion=8"), "{way}");
                asked.send(200)
            })
            .await;
        assert_eq!(names(&fleet), expected(&[1, 2]), "{way}");
        watch.event("ERROR", &json!({"kind": "Status", "code": 410}));
        if is_for_good {
            let _watch = cluster.list_and_watch(&[1, 3]).await;
            continue;
        }
        let (fleet, _watch) = cluster
            .next(async |server| {
                let asked = server.asked().await;
                assert!(asked.is_streaming_list(), "{way}");
                let watch = asked.send(200);
                watch.event("ADDED", &web(9, &[1, 3]));
                watch.initial_events_end(10);
                watch
            })
            .await;
        assert_eq!(names(&fleet), expected(&[1, 3]), "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_an_empty_list_and_no_slice_a_failure() {
    let (mut cluster, watch) = Cluster::watching(&[1]).await;
    let (fleet, ()) = cluster
        .next(async |_| watch.event("MODIFIED", &web(11, &[])))
        .await;
    assert!(
        fleet.expect("a list").is_empty(),
        "the guard keeps the last one"
    );
    let (fleet, ()) = cluster
        .next(async |_| watch.event("DELETED", &web(12, &[])))
        .await;
    let told = fleet.expect_err("no slice");
    assert!(
        told.starts_with("the namespace shop has no EndpointSlice of a service web"),
        "{told}"
    );
    let (fleet, ()) = cluster
        .next(async |_| watch.event("ADDED", &web(13, &[2])))
        .await;
    assert_eq!(names(&fleet), expected(&[2]));
}

#[tokio::test(start_paused = true)]
async fn ports_hints_and_probes_follow_the_settings() {
    let mut replica = slice("web-abc", 5, 80, &[]);
    replica["ports"] = json!([
        {"name": "http", "port": 80, "appProtocol": "kubernetes.io/h2c"},
        {"name": "slackwater-probe", "port": 9000, "protocol": "UDP"},
        {"name": "other", "port": 9001}
    ]);
    let mut near = endpoint("10.0.0.1", "web-1");
    near["hints"] = json!({"forZones": [{"name": "a"}]});
    let mut far = endpoint("10.0.0.2", "web-2");
    far["hints"] = json!({"forZones": [{"name": "b"}]});
    replica["endpoints"] = json!([near, far]);
    let other = PodPort::Name("other".to_owned());
    let probes = |topology, probe_port: Option<PodPort>, of_service| {
        let settings = KubernetesSettings {
            topology,
            probe_port,
            ..settings()
        };
        let mut cluster = Cluster::with(&settings, &ReplicaSettings::default(), of_service);
        let replica = replica.clone();
        async move {
            let (fleet, _watch) = cluster
                .next(async |server| {
                    let watch = server.asked().await.send(200);
                    watch.event("ADDED", &replica);
                    watch.initial_events_end(10);
                    watch
                })
                .await;
            let replicas = fleet.expect("a fleet");
            let replicas = replicas.replicas().iter();
            let remark = cluster
                .source
                .remarks
                .last()
                .first()
                .cloned()
                .unwrap_or_default();
            assert!(remark.contains("kubernetes.io/h2c"), "{remark}");
            assert!(remark.contains("replica.protocol = \"h2c\""), "{remark}");
            replicas
                .map(|it| it.probe_address.to_string())
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(probes(Topology::Hints, None, None).await, ["10.0.0.1:9000"]);
    assert_eq!(
        probes(Topology::Ignore, Some(other.clone()), None).await,
        ["10.0.0.1:9001", "10.0.0.2:9001"]
    );
    let own = NonZeroU16::new(7);
    assert_eq!(
        probes(Topology::Hints, Some(other), own).await,
        ["10.0.0.1:7"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_protocol_that_is_configured_is_no_remark() {
    let h2c = ReplicaSettings {
        protocol: ReplicaProtocol::H2c,
        ..ReplicaSettings::default()
    };
    let mut pods = web(5, &[1]);
    pods["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    let mut names = slice("names", 6, 80, &[endpoint("web.example", "a")]);
    names["addressType"] = json!("FQDN");
    let mut cluster = Cluster::with(&settings(), &h2c, None);
    let (_, watch) = cluster
        .next(async |server| {
            let watch = server.asked().await.send(200);
            watch.event("ADDED", &pods);
            watch.initial_events_end(10);
            watch
        })
        .await;
    assert_eq!(cluster.source.remarks.last(), [""; 0]);
    let (fleet, ()) = cluster.next(async |_| watch.event("ADDED", &names)).await;
    assert_eq!(self::names(&fleet), expected(&[1]));
    let told = "EndpointSlice ignored: names is of another type than IPv4 and IPv6";
    assert_eq!(cluster.source.remarks.last(), [told]);
}

#[tokio::test(start_paused = true)]
async fn addresses_that_cannot_be_replicas_are_left_out() {
    let (mut cluster, watch) = Cluster::watching(&[1]).await;
    // 10.0.0.99:80 is a listener of the proxy.
    let (fleet, ()) = cluster
        .next(async |_| watch.event("MODIFIED", &web(11, &[1, 99])))
        .await;
    assert_eq!(names(&fleet), expected(&[1]));
    assert!(cluster.source.remarks.last()[0].contains("is this process itself"));
    let (fleet, ()) = cluster
        .next(async |_| watch.event("MODIFIED", &web(12, &[99])))
        .await;
    let told = fleet.expect_err("nothing is left");
    assert!(
        told.starts_with("shop/web:http has no usable address"),
        "{told}"
    );
    let mut other = web(13, &[1]);
    other["ports"] = json!([{"name": "grpc", "port": 90}]);
    let (fleet, ()) = cluster
        .next(async |_| watch.event("MODIFIED", &other))
        .await;
    let told = fleet.expect_err("another port");
    assert_eq!(
        told,
        "the EndpointSlices of shop/web:http have no TCP port http; they have: grpc (90)"
    );
}

#[tokio::test]
async fn a_source_is_followed_like_another_one_if_all_that_it_depends_on_is_the_same() {
    let folder = Folder::new("alike");
    let text = kubeconfig("http://127.0.0.1:1");
    let source = |text: &str,
                  (settings, zone): (KubernetesSettings, &str),
                  replica: &ReplicaSettings,
                  port,
                  own| {
        let access = ClusterAccess::read(Some(&folder.write("config", text)));
        let setup = KubernetesSetup {
            service: &web_service(),
            cluster: &settings,
            zone: &Zone::new(zone).expect("a zone"),
            replica,
            probe_port: NonZeroU16::new(port),
            own: OwnAddresses::new([SocketAddr::from(([10, 0, 0, 9], own))]),
        };
        KubernetesSource::new(access.expect("valid"), setup, 1).expect("a source")
    };
    let replica = ReplicaSettings::default();
    let followed = Discovery::follow_pods(
        "web",
        source(&text, (settings(), "a"), &replica, 7, 80),
        crate::testing::whole(),
        None,
        holding(&[1]),
    );
    let like = |text: &str, settings: KubernetesSettings, replica: &ReplicaSettings, port, own| {
        followed.follows_like(&source(text, (settings, "a"), replica, port, own))
    };
    assert!(like(&text, settings(), &replica, 7, 80));
    for (old, new) in [
        ("http://127.0.0.1:1", "http://127.0.0.1:2"),
        ("tokenFile: token", "tokenFile: other"),
        ("tokenFile: token", "token: s3cret"),
        ("namespace: shop", "namespace: store"),
        ("{server:", "{certificate-authority-data: \"QQ==\", server:"),
    ] {
        let changed = text.replace(old, new);
        assert_ne!(changed, text, "{old}");
        assert!(!like(&changed, settings(), &replica, 7, 80), "{new}");
    }
    let h2c = ReplicaSettings {
        protocol: ReplicaProtocol::H2c,
        ..ReplicaSettings::default()
    };
    assert!(!like(&text, settings(), &h2c, 7, 80));
    assert!(!like(&text, settings(), &replica, 8, 80));
    assert!(!like(&text, settings(), &replica, 7, 81));
    let in_other_zone = source(&text, (settings(), "b"), &replica, 7, 80);
    assert!(!followed.follows_like(&in_other_zone));
    let topology = Topology::Ignore;
    let ignoring = KubernetesSettings {
        topology,
        ..settings()
    };
    assert!(!like(&text, ignoring, &replica, 7, 80));
    let other = Discovery::of_list(
        Fleet::default(),
        &crate::testing::whole().subset,
        holding(&[1]),
    );
    assert!(!other.follows_like(&source(&text, (settings(), "a"), &replica, 7, 80)));
}

#[tokio::test]
async fn the_namespace_is_that_of_the_service_the_settings_or_the_access() {
    let folder = Folder::new("namespace");
    let text = kubeconfig("http://127.0.0.1:1");
    let here = folder.write("config", &text);
    let nowhere = folder.write("none", &text.replace(", namespace: shop", ""));
    let name = |file: &std::path::Path, of_service: Option<&str>, of_settings: Option<&str>| {
        let access = ClusterAccess::read(Some(file)).expect("a kubeconfig");
        let pods = KubernetesService {
            namespace: of_service.map(str::to_owned),
            port: PodPort::Number(NonZeroU16::MIN),
            ..web_service()
        };
        let settings = KubernetesSettings {
            namespace: of_settings.map(str::to_owned),
            ..settings()
        };
        let setup = KubernetesSetup {
            service: &pods,
            cluster: &settings,
            zone: &Zone::default(),
            replica: &ReplicaSettings::default(),
            probe_port: None,
            own: OwnAddresses::new([]),
        };
        KubernetesSource::new(access, setup, 1).map(|source| source.name())
    };
    let is = |namespace: &str| Ok(format!("kubernetes {namespace}/web:1"));
    assert_eq!(name(&here, Some("a"), Some("b")), is("a"));
    assert_eq!(name(&here, None, Some("b")), is("b"));
    assert_eq!(name(&here, None, None), is("shop"));
    let told = name(&nowhere, None, None).expect_err("none");
    assert!(told.contains("none: names no namespace"), "{told}");
    assert!(told.contains("kubernetes.namespace"), "{told}");
}
