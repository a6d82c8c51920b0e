//! Tests of the selection: conditions × hints against kube-proxy's rules, families, ports, and
//! arbitrary slices.

use super::*;
use crate::kubernetes::slices::{ENDPOINTS_MAX, Object, OwnPlace, Slices};
use crate::kubernetes::testing;
use proptest::collection::vec;
use proptest::option::of as maybe;
use proptest::prelude::*;
use serde_json::{Value, json};
use slackwater_config::Zone;

fn place() -> OwnPlace {
    OwnPlace {
        zone: Zone::new("a").expect("a zone"),
        node: Some("n1".to_owned()),
    }
}

fn parse(value: &Value) -> Slice {
    let object: Object = serde_json::from_value(value.clone()).expect("a slice");
    Slice::of(object, &place())
}

fn by_name(port: &str) -> Rules {
    Rules {
        port: PodPort::Name(port.to_owned()),
        probe_port: None,
        topology: Topology::Hints,
    }
}

fn addresses(slices: &[Slice], rules: &Rules) -> Vec<String> {
    let selected = select(&slices.iter(), rules).expect("the port exists");
    let selected = selected.iter();
    selected.map(|it| it.address.to_string()).collect()
}

/// An endpoint with conditions and hints; `None` leaves a condition or the hints out.
#[derive(Clone, Debug)]
struct Given {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
    zones: Option<&'static [&'static str]>,
    nodes: Option<&'static [&'static str]>,
}

impl Given {
    fn json(&self, index: usize) -> Value {
        let named = |names: &[&str]| {
            let names = names.iter().map(|name| json!({"name": name}));
            Value::Array(names.collect())
        };
        json!({
            "addresses": [format!("10.0.0.{index}")],
            "conditions": {
                "ready": self.ready, "serving": self.serving, "terminating": self.terminating
            },
            "hints": {"forZones": self.zones.map(named), "forNodes": self.nodes.map(named)}
        })
    }
}

/// What kube-proxy uses of endpoints of one port, written after its source, statement by statement:
/// `CategorizeEndpoints`, `topologyModeFromHints` and `availableForTopology`.
fn kube_proxy(endpoints: &[Given], zone: &str, node: &str) -> Vec<usize> {
    let is_ready = |it: &Given| it.ready.is_none_or(|ready| ready);
    let is_serving = |it: &Given| it.serving.is_none_or(|serving| serving);
    let is_terminating = |it: &Given| it.terminating.is_some_and(|terminating| terminating);
    let mut has_endpoint_for_node = false;
    let mut all_have_node_hints = true;
    let mut has_endpoint_for_zone = false;
    let mut all_have_zone_hints = true;
    for endpoint in endpoints {
        if !is_ready(endpoint) {
            continue;
        }
        match endpoint.nodes {
            None | Some([]) => all_have_node_hints = false,
            Some(nodes) if nodes.contains(&node) => has_endpoint_for_node = true,
            Some(_) => (),
        }
        match endpoint.zones {
            None | Some([]) => all_have_zone_hints = false,
            Some(zones) if zones.contains(&zone) => has_endpoint_for_zone = true,
            Some(_) => (),
        }
    }
    let mode = if all_have_node_hints && has_endpoint_for_node {
        "PreferSameNode"
    } else if all_have_zone_hints && has_endpoint_for_zone {
        "PreferSameZone"
    } else {
        ""
    };
    let available = |it: &Given| match mode {
        "PreferSameNode" => it.nodes.is_some_and(|nodes| nodes.contains(&node)),
        "PreferSameZone" => it.zones.is_some_and(|zones| zones.contains(&zone)),
        _ => true,
    };
    let filtered = |fits: &dyn Fn(&Given) -> bool| -> Vec<usize> {
        let all = endpoints.iter().enumerate();
        let fitting = all.filter(|(_, it)| fits(it));
        fitting.map(|(index, _)| index).collect()
    };
    let used = filtered(&|it| is_ready(it) && available(it));
    if used.is_empty() {
        return filtered(&|it| is_serving(it) && is_terminating(it));
    }
    used
}

#[test]
fn conditions_and_hints_select_as_in_kube_proxy() {
    const CONDITIONS: [Option<bool>; 3] = [None, Some(true), Some(false)];
    const PLACES: [Option<&[&str]>; 3] = [None, Some(&["a", "n1"]), Some(&["b", "n2"])];
    let mut all = Vec::new();
    for ready in CONDITIONS {
        for serving in CONDITIONS {
            for terminating in CONDITIONS {
                for zones in PLACES {
                    for nodes in PLACES {
                        all.push(Given {
                            ready,
                            serving,
                            terminating,
                            zones,
                            nodes,
                        });
                    }
                }
            }
        }
    }
    let parsed: Vec<Vec<Slice>> = (0..3)
        .map(|index| {
            let slices = all.iter();
            let slices =
                slices.map(|given| parse(&testing::slice("s", 1, 80, &[given.json(index)])));
            slices.collect()
        })
        .collect();
    let rules = by_name("http");
    let compare = |chosen: &[usize]| {
        let given: Vec<_> = chosen.iter().map(|&index| all[index].clone()).collect();
        let expected = kube_proxy(&given, "a", "n1").into_iter();
        let expected: Vec<_> = expected.map(|index| format!("10.0.0.{index}:80")).collect();
        let slices = chosen.iter().enumerate();
        let slices = slices.map(|(at, &index)| &parsed[at][index]);
        let found = select(&slices, &rules).expect("the port exists");
        let found = found.iter().map(|it| it.address.to_string());
        assert_eq!(found.collect::<Vec<_>>(), expected, "{given:?}");
    };
    // Every endpoint alone, every pair, and one of 2003 triples.
    let count = all.len();
    for one in 0..count {
        compare(&[one]);
        for two in 0..count {
            compare(&[one, two]);
        }
    }
    for triple in (0..count * count * count).step_by(2003) {
        compare(&[
            triple % count,
            triple / count % count,
            triple / count / count,
        ]);
    }
}

#[test]
fn hints_without_a_name_are_none() {
    let named = json!({"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "a"}]}});
    let empty = json!({"addresses": ["10.0.0.2"], "hints": {"forZones": [], "forNodes": []}});
    let slices = [parse(&testing::slice("s", 1, 80, &[named, empty]))];
    let both = ["10.0.0.1:80", "10.0.0.2:80"];
    assert_eq!(addresses(&slices, &by_name("http")), both);
}

#[test]
fn topology_may_be_ignored() {
    let near = json!({"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "a"}]}});
    let far = json!({"addresses": ["10.0.0.2"], "hints": {"forZones": [{"name": "b"}]}});
    let slices = [parse(&testing::slice("s", 1, 80, &[near, far]))];
    assert_eq!(addresses(&slices, &by_name("http")), ["10.0.0.1:80"]);
    let ignoring = Rules {
        topology: Topology::Ignore,
        ..by_name("http")
    };
    assert_eq!(
        addresses(&slices, &ignoring),
        ["10.0.0.1:80", "10.0.0.2:80"]
    );
}

#[test]
fn an_endpoint_has_its_zone_unless_that_is_none() {
    let longest = "z".repeat(Zone::BYTES_MAX);
    let too_long = "z".repeat(Zone::BYTES_MAX + 1);
    for (zone, expected) in [
        (json!("b"), Some("b")),
        (json!(longest), Some(longest.as_str())),
        (json!(""), None),
        (json!(null), None),
        (json!(too_long), None),
        (json!("b\u{1b}"), None),
    ] {
        let endpoint = json!({"addresses": ["10.0.0.1"], "zone": zone});
        let slice = parse(&testing::slice("s", 1, 80, &[endpoint]));
        assert_eq!(slice.endpoints[0].zone.name(), expected);
    }
    let without = parse(&testing::slice(
        "s",
        1,
        80,
        &[json!({"addresses": ["10.0.0.1"]})],
    ));
    assert_eq!(without.endpoints[0].zone, Zone::default());
}

#[test]
fn a_proxy_that_does_not_know_its_place_uses_all() {
    let hinted = json!({"addresses": ["10.0.0.1"],
        "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]}});
    let object = serde_json::from_value(testing::slice("s", 1, 80, &[hinted])).expect("a slice");
    let slice = Slice::of(object, &OwnPlace::default());
    assert_eq!(addresses(&[slice], &by_name("http")), ["10.0.0.1:80"]);
}

#[test]
fn ipv6_is_used_only_without_ipv4_and_an_address_counts_once() {
    let four = parse(&testing::slice(
        "four",
        1,
        80,
        &[
            testing::endpoint("10.0.0.1", "a"),
            testing::endpoint("10.0.0.1", "a"),
        ],
    ));
    let again = parse(&testing::slice(
        "again",
        1,
        80,
        &[testing::endpoint("10.0.0.1", "a")],
    ));
    let six = parse(&testing::slice(
        "six",
        1,
        80,
        &[testing::endpoint("fd00::1", "a")],
    ));
    let rules = by_name("http");
    assert_eq!(
        addresses(&[six.clone(), four, again], &rules),
        ["10.0.0.1:80"]
    );
    let empty = parse(&testing::slice("empty", 1, 80, &[]));
    assert_eq!(addresses(&[empty, six], &rules), ["[fd00::1]:80"]);
}

#[test]
fn of_two_families_ipv4_is_used_unless_ipv6_has_more_than_twice_as_many() {
    // For each family: how many endpoints are ready, terminating, and neither.
    type Counts = (usize, usize, usize);
    let slice = |name: &str, start: &str, (ready, leaving, gone): Counts| {
        let endpoints = (1..=ready + leaving + gone).map(|n| {
            let mut endpoint = testing::endpoint(&format!("{start}{n}"), "a");
            if n > ready {
                let serves = n <= ready + leaving;
                endpoint["conditions"] =
                    json!({"ready": false, "serving": serves, "terminating": serves});
            }
            endpoint
        });
        parse(&testing::slice(name, 1, 80, &endpoints.collect::<Vec<_>>()))
    };
    for (four, six, expected) in [
        ((1, 0, 0), (0, 0, 0), "4"),
        ((0, 0, 0), (1, 0, 0), "6"),
        ((1, 0, 0), (1, 0, 0), "4"),
        // One slice is changed before the other.
        ((1, 0, 0), (2, 0, 0), "4"),
        ((10, 0, 0), (20, 0, 0), "4"),
        ((10, 0, 0), (21, 0, 0), "6"),
        // The endpoints of IPv4 are not ready.
        ((0, 0, 3), (1, 0, 2), "6"),
        ((0, 3, 0), (1, 0, 0), "6"),
        ((1, 0, 2), (0, 9, 9), "4"),
        // None is ready, some still serve.
        ((0, 0, 3), (0, 1, 0), "6"),
        ((0, 1, 3), (0, 2, 9), "4"),
        ((0, 0, 3), (0, 0, 3), ""),
    ] {
        let slices = [slice("six", "fd00::", six), slice("four", "10.0.0.", four)];
        let found = addresses(&slices, &by_name("http"));
        let family = match found.first() {
            None => "",
            Some(address) if address.starts_with('[') => "6",
            Some(_) => "4",
        };
        assert_eq!(family, expected, "{four:?} {six:?}: {found:?}");
        let is_one = |address: &String| address.starts_with('[') == (family == "6");
        assert!(found.iter().all(is_one), "{found:?}");
    }
}

#[test]
fn of_an_address_in_two_slices_the_more_available_endpoint_counts() {
    let gone = json!({"addresses": ["10.0.0.1"], "conditions": {"ready": false, "serving": false}});
    let leaving = json!({"addresses": ["10.0.0.1"],
        "conditions": {"ready": false, "serving": true, "terminating": true}});
    let ready = testing::endpoint("10.0.0.1", "web-1");
    let slice =
        |endpoint: &Value| parse(&testing::slice("s", 1, 80, core::slice::from_ref(endpoint)));
    let rules = by_name("http");
    for (one, other, ends_ready) in [
        (&gone, &ready, true),
        (&leaving, &ready, true),
        (&gone, &leaving, false),
    ] {
        for slices in [[slice(one), slice(other)], [slice(other), slice(one)]] {
            let selected = select(&slices.iter(), &rules).expect("the port exists");
            assert_eq!(selected.len(), 1);
            assert_eq!(selected[0].endpoint.is_ready, ends_ready);
        }
    }
}

#[test]
fn ports_are_found_by_name_or_number_in_each_slice() {
    let with_ports = |address: &str, ports: Value| {
        let mut slice = testing::slice("s", 1, 80, &[testing::endpoint(address, "a")]);
        slice["ports"] = ports;
        parse(&slice)
    };
    // During a rollout the number behind a name may differ.
    let old = with_ports(
        "10.0.0.1",
        json!([
            {"name": "quic", "port": 80, "protocol": "UDP"},
            {"name": "http", "port": 80, "appProtocol": "kubernetes.io/h2c"},
            {"name": "grpc", "port": 90, "protocol": "TCP"},
            {"name": "slackwater-probe", "port": 99, "protocol": "UDP"}
        ]),
    );
    let new = with_ports("10.0.0.2", json!([{"name": "http", "port": 8080}]));
    let unnamed = with_ports("10.0.0.3", json!([{"name": "", "port": 80}]));
    let null = with_ports(
        "10.0.0.4",
        json!([{"port": 80, "name": null, "protocol": null}]),
    );
    let all = [old, new, unnamed, null];
    let http = by_name("http");
    assert_eq!(addresses(&all, &http), ["10.0.0.1:80", "10.0.0.2:8080"]);
    let selected = select(&all.iter(), &http).expect("the port exists");
    assert_eq!(selected[0].app_protocol, Some("kubernetes.io/h2c"));
    assert_eq!(selected[0].probe_port, NonZeroU16::new(99));
    assert_eq!(selected[1].probe_port, None);
    let numbered = Rules {
        port: PodPort::Number(NonZeroU16::new(80).expect("a port")),
        probe_port: Some(PodPort::Number(NonZeroU16::MIN)),
        ..http.clone()
    };
    assert_eq!(
        addresses(&all, &numbered),
        ["10.0.0.1:80", "10.0.0.3:80", "10.0.0.4:80"]
    );
    let selected = select(&all.iter(), &numbered).expect("the port exists");
    assert!(
        selected
            .iter()
            .all(|it| it.probe_port == Some(NonZeroU16::MIN))
    );
    let named = Rules {
        probe_port: Some(PodPort::Name("grpc".to_owned())),
        ..http
    };
    let selected = select(&all.iter(), &named).expect("the port exists");
    assert_eq!(selected[0].probe_port, NonZeroU16::new(90));
    assert_eq!(selected[1].probe_port, None);
}

#[test]
fn a_port_that_no_slice_has_is_reported_with_those_that_there_are() {
    let mut slice = testing::slice("s", 1, 80, &[testing::endpoint("10.0.0.1", "a")]);
    slice["ports"] = json!([
        {"name": "http", "port": 80}, {"port": 90}, {"name": "all", "port": null},
        {"name": "bad", "port": 70000}, {"name": "dns", "port": 53, "protocol": "UDP"}
    ]);
    let slices = [parse(&slice)];
    for port in ["grpc", "all", "bad", "dns"] {
        let missing = select(&slices.iter(), &by_name(port)).expect_err(port);
        assert_eq!(missing, NoPort("90, http (80)".to_owned()));
    }
    // Without a ready pod the controller writes no ports.
    let mut empty = testing::slice("s", 1, 80, &[]);
    empty["ports"] = Value::Null;
    empty["endpoints"] = Value::Null;
    assert_eq!(addresses(&[parse(&empty)], &by_name("http")), [""; 0]);
}

#[test]
fn host_names_and_addresses_that_are_none_are_left_out() {
    let mut names = testing::slice("s", 1, 80, &[testing::endpoint("web.example", "a")]);
    names["addressType"] = json!("FQDN");
    assert_eq!(parse(&names).family, Family::Other);
    let strange = json!([
        {"addresses": []}, {"addresses": null}, {}, {"addresses": ["10.0.0.256"]},
        {"addresses": ["fd00::1"]}, {"addresses": ["10.0.0.1", "10.0.0.2"]}
    ]);
    let mut mixed = testing::slice("s", 1, 80, &[]);
    mixed["endpoints"] = strange;
    let slices = [parse(&names), parse(&mixed)];
    assert_eq!(addresses(&slices, &by_name("http")), ["10.0.0.1:80"]);
}

#[test]
fn endpoints_are_counted_over_all_slices() {
    let part = |from: usize, count: usize| {
        let endpoints = (from..from + count)
            .map(|at| testing::endpoint(&format!("10.0.{}.{}", at / 250, at % 250), "p"));
        parse(&testing::slice("s", 1, 80, &endpoints.collect::<Vec<_>>()))
    };
    let mut slices = Slices::default();
    slices.put("a".to_owned(), part(0, 6000)).expect("fits");
    slices.put("b".to_owned(), part(6000, 4000)).expect("fits");
    slices.put("a".to_owned(), part(0, 6000)).expect("replaced");
    let told = slices.put("c".to_owned(), part(10_000, 1));
    assert_eq!(
        told,
        Err("the service has 10001 endpoints and more, expected at most 10000".to_owned())
    );
    assert!(slices.remove("c") && !slices.remove("c"));
    assert!(slices.remove("b"));
    slices
        .put("c".to_owned(), part(6000, ENDPOINTS_MAX - 6000))
        .expect("fits");
}

fn arbitrary_text() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        "(10\\.0\\.0\\.[0-9]{1,3}|fd00::[0-9a-f]{1,4}|.{0,12})".prop_map(Value::from),
    ]
}

fn arbitrary_endpoint() -> impl Strategy<Value = Value> {
    let hints = maybe(vec(
        "[abn12]{0,2}".prop_map(|name| json!({"name": name})),
        0..3,
    ));
    (
        maybe(vec(
            arbitrary_text().prop_map(|text| json!(text.as_str().unwrap_or("?"))),
            0..3,
        )),
        maybe(any::<bool>()),
        maybe(any::<bool>()),
        maybe(any::<bool>()),
        (hints.clone(), hints),
        arbitrary_text(),
    )
        .prop_map(
            |(addresses, ready, serving, terminating, (zones, nodes), pod)| {
                json!({
                    "addresses": addresses,
                    "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                    "hints": {"forZones": zones, "forNodes": nodes},
                    "targetRef": {"name": pod}
                })
            },
        )
}

fn arbitrary_slice() -> impl Strategy<Value = Value> {
    let port = (
        arbitrary_text(),
        maybe(any::<i64>()),
        maybe(0..90_000_i64),
        maybe("TCP|UDP|.{0,4}"),
    );
    let port = port.prop_map(|(name, strange, port, protocol)| {
        let name = name.as_str().map_or(json!("http"), |_| name.clone());
        json!({"name": name, "port": port.or(strange), "protocol": protocol})
    });
    (
        maybe("IPv4|IPv6|FQDN|.{0,4}"),
        maybe(vec(arbitrary_endpoint(), 0..8)),
        maybe(vec(port, 0..4)),
    )
        .prop_map(|(family, endpoints, ports)| {
            json!({"addressType": family, "endpoints": endpoints, "ports": ports})
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_slices_select_known_addresses_once_and_never_panic(
        values in vec(arbitrary_slice(), 0..5),
        number in any::<Option<NonZeroU16>>(),
    ) {
        let slices: Vec<_> = values.iter().map(parse).collect();
        let rules = Rules {
            port: number.map_or(PodPort::Name("http".to_owned()), PodPort::Number),
            ..by_name("http")
        };
        if let Ok(selected) = select(&slices.iter(), &rules) {
            let mut seen: Vec<_> = selected.iter().map(|it| it.address).collect();
            prop_assert!(seen.is_sorted());
            seen.dedup();
            prop_assert_eq!(seen.len(), selected.len());
            let first = selected.first().map(|it| it.address.is_ipv4());
            for one in &selected {
                prop_assert_eq!(Some(one.address.is_ipv4()), first);
                let known = slices.iter().any(|slice| {
                    slice.endpoints.iter().any(|it| it.ip == one.address.ip())
                });
                prop_assert!(known);
                prop_assert!(
                    one.endpoint.is_ready
                        || one.endpoint.is_serving && one.endpoint.is_terminating
                );
            }
        }
    }

    #[test]
    fn any_object_is_parsed_or_refused(text in "\\PC{0,200}") {
        if let Ok(object) = serde_json::from_str::<Object>(&text) {
            let _ = Slice::of(object, &place());
        }
    }
}
