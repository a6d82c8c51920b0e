//! Tests of the reading of EDS resources: which endpoints, which weights, which mistakes.

use super::*;
use crate::messages::{
    Address, DropOverload, Endpoint as EndpointMessage, FractionalPercent, Locality, Struct,
    UInt32Value, Value,
};
use proptest::prelude::*;

fn endpoint(last: u8) -> LbEndpoint {
    LbEndpoint {
        endpoint: Some(EndpointMessage {
            address: Some(Address {
                socket_address: Some(SocketAddress {
                    protocol: 0,
                    address: format!("10.0.0.{last}"),
                    port_value: Some(80),
                }),
            }),
        }),
        ..LbEndpoint::default()
    }
}

fn weighing(last: u8, weight: u32) -> LbEndpoint {
    LbEndpoint {
        load_balancing_weight: Some(UInt32Value { value: weight }),
        ..endpoint(last)
    }
}

fn in_health(last: u8, health_status: i32) -> LbEndpoint {
    LbEndpoint {
        health_status,
        ..endpoint(last)
    }
}

fn locality(priority: u32, weight: Option<u32>, endpoints: &[LbEndpoint]) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        lb_endpoints: endpoints.to_vec(),
        load_balancing_weight: weight.map(|value| UInt32Value { value }),
        priority,
        ..LocalityLbEndpoints::default()
    }
}

fn read(localities: &[LocalityLbEndpoints]) -> Result<Assignment, String> {
    let message = ClusterLoadAssignment {
        cluster_name: "web".to_owned(),
        endpoints: localities.to_vec(),
        policy: None,
    };
    let bytes = Bytes::from(message.encode_to_vec());
    Assignment::read(bytes).map_err(|error| error.to_string())
}

/// The last number of each address, the tier and the weight.
fn shares(localities: &[LocalityLbEndpoints]) -> Vec<(u8, u8, u32)> {
    let endpoints = read(localities).expect("valid").endpoints.into_iter();
    let last = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(_) => 0,
    };
    endpoints
        .map(|it| (last(it.address), it.tier, it.weight))
        .collect()
}

/// A locality of priority 0 in this zone.
fn in_zone(zone: &str, last: u8) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        locality: Some(Locality {
            region: "eu".to_owned(),
            zone: zone.to_owned(),
            sub_zone: "rack-7".to_owned(),
        }),
        ..locality(0, None, &[endpoint(last)])
    }
}

#[test]
fn endpoints_have_the_zone_of_their_locality() {
    let longest = "z".repeat(ZONE_BYTES_MAX);
    let localities = [
        in_zone("eu-1", 1),
        in_zone("", 2),
        locality(0, None, &[endpoint(3)]),
        in_zone(&longest, 4),
    ];
    let endpoints = read(&localities).expect("valid").endpoints;
    let zones: Vec<_> = endpoints.iter().map(|it| &*it.zone).collect();
    assert_eq!(zones, ["eu-1", "", "", &longest]);
}

/// A zone that cannot be used says nothing about the endpoints.
#[test]
fn a_zone_that_is_none_counts_as_unknown() {
    for (zone, told) in [
        ("z".repeat(ZONE_BYTES_MAX + 1), "has 129 bytes"),
        ("a\n".to_owned(), "is \"a\\n\""),
    ] {
        let read = read(&[in_zone("a", 1), in_zone(&zone, 2)]).expect("valid");
        let zones: Vec<_> = read.endpoints.iter().map(|it| &*it.zone).collect();
        assert_eq!(zones, ["a", ""]);
        let remark = format!(
            "endpoints[1].locality.zone {told}, expected at most 128 printable characters; it counts as unknown"
        );
        assert_eq!(read.remarks, [remark]);
    }
    let all: Vec<_> = (0..20).map(|last| in_zone("\n", last)).collect();
    assert_eq!(read(&all).expect("valid").remarks.len(), 8);
}

#[test]
fn health_leaves_endpoints_out_or_makes_them_backups() {
    let all: Vec<_> = (0..=6_u8)
        .map(|status| in_health(1 + status, status.into()))
        .collect();
    let read = read(&[locality(0, None, &all)]).expect("valid");
    assert_eq!(read.left_out, 4, "UNHEALTHY, DRAINING, TIMEOUT and 6");
    assert_eq!(
        shares(&[locality(0, None, &all)]),
        [(1, 0, 1), (2, 0, 1), (6, 1, 1)]
    );
    let lowest: Vec<_> = (0..=15)
        .map(|tier| locality(tier, None, &[in_health(1, 5)]))
        .collect();
    assert_eq!(
        shares(&lowest).last(),
        Some(&(1, 1, 1)),
        "an address counts once"
    );
    let mut last = lowest.clone();
    last[15].lb_endpoints = vec![in_health(9, 5)];
    assert!(shares(&last).contains(&(9, 15, 1)), "no tier is lower");
}

#[test]
fn weights_of_endpoints_count_within_a_locality_and_localities_by_their_own() {
    for (localities, expected) in [
        // No locality has a weight: the endpoints' own weights, in their smallest form.
        (
            vec![locality(0, None, &[weighing(1, 2), weighing(2, 6)])],
            vec![(1, 0, 1), (2, 0, 3)],
        ),
        (
            vec![
                locality(0, None, &[endpoint(1)]),
                locality(0, None, &[endpoint(2), endpoint(3)]),
            ],
            vec![(1, 0, 1), (2, 0, 1), (3, 0, 1)],
        ),
        // Equal localities get equal shares, whatever they have.
        (
            vec![
                locality(0, Some(1), &[endpoint(1)]),
                locality(0, Some(1), &[endpoint(2), endpoint(3)]),
            ],
            vec![(1, 0, 2), (2, 0, 1), (3, 0, 1)],
        ),
        (
            vec![
                locality(0, Some(3), &[endpoint(1)]),
                locality(0, Some(1), &[weighing(2, 1), weighing(3, 3)]),
            ],
            vec![(1, 0, 12), (2, 0, 1), (3, 0, 3)],
        ),
        // A locality without a weight gets nothing beside one that has one.
        (
            vec![
                locality(0, Some(7), &[endpoint(1), weighing(2, 2)]),
                locality(0, None, &[endpoint(3)]),
                locality(1, Some(0), &[endpoint(4)]),
            ],
            vec![(1, 0, 1), (2, 0, 2), (4, 1, 1)],
        ),
        // Only what is in service counts for a share.
        (
            vec![
                locality(0, Some(1), &[endpoint(1), in_health(2, 2)]),
                locality(0, Some(1), &[endpoint(3)]),
            ],
            vec![(1, 0, 1), (3, 0, 1)],
        ),
        // Weights beyond the range are scaled, and none becomes 0.
        (
            vec![locality(0, None, &[weighing(1, u32::MAX), weighing(2, 1)])],
            vec![(1, 0, 65_520), (2, 0, 1)],
        ),
        (
            vec![locality(0, None, &[weighing(1, 65_535), weighing(2, 1)])],
            vec![(1, 0, 65_535), (2, 0, 1)],
        ),
    ] {
        assert_eq!(shares(&localities), expected, "{localities:?}");
    }
}

#[test]
fn mistakes_name_the_field() {
    let with_address = |protocol, address: &str, port_value| {
        let mut changed = endpoint(1);
        changed.endpoint.as_mut().expect("there").address = Some(Address {
            socket_address: Some(SocketAddress {
                protocol,
                address: address.to_owned(),
                port_value,
            }),
        });
        vec![locality(0, None, &[endpoint(2), changed])]
    };
    let place = "endpoints[0].lb_endpoints[1].";
    let address = &format!("{place}endpoint.address.socket_address");
    for (localities, expected) in [
        (
            with_address(1, "10.0.0.1", Some(80)),
            format!("{address}.protocol is not TCP"),
        ),
        (
            with_address(0, "web.internal", Some(80)),
            format!("{address}.address is \"web.internal\", expected an IP address"),
        ),
        (
            with_address(0, "10.0.0.1", None),
            format!("{address}.port_value is missing"),
        ),
        (
            with_address(0, "10.0.0.1", Some(0)),
            format!("{address}.port_value is 0, expected 1 to 65535"),
        ),
        (
            with_address(0, "10.0.0.1", Some(65_536)),
            format!("{address}.port_value is 65536"),
        ),
        (
            vec![locality(0, None, &[endpoint(1), LbEndpoint::default()])],
            format!("{place}endpoint.address is missing"),
        ),
        (
            vec![locality(0, None, &[endpoint(1), weighing(2, 0)])],
            format!("{place}load_balancing_weight is 0"),
        ),
        (
            vec![locality(16, None, &[])],
            "endpoints[0].priority is 16, expected 0 to 15".to_owned(),
        ),
        (
            vec![locality(0, None, &[]), locality(2, None, &[])],
            "endpoints[].priority leaves out 1, expected every number from 0 to 2".to_owned(),
        ),
        (
            vec![locality(1, None, &[])],
            "endpoints[].priority leaves out 0".to_owned(),
        ),
        (
            vec![LocalityLbEndpoints {
                leds_cluster_locality_config: Some(Bytes::new()),
                ..locality(0, None, &[])
            }],
            "endpoints[0].leds_cluster_locality_config is not supported".to_owned(),
        ),
    ] {
        let why = read(&localities).expect_err("wrong");
        assert!(why.starts_with(&expected), "{why} / {expected}");
    }
}

#[test]
fn the_number_of_endpoints_is_limited_before_they_are_decoded() {
    let many = |count: usize| vec![locality(0, None, &vec![endpoint(1); count])];
    assert!(read(&many(10_000)).is_ok());
    let why = read(&many(10_001)).expect_err("too many");
    assert_eq!(
        why,
        "endpoints[].lb_endpoints has 10001 entries, expected at most 10000"
    );
    let why = read(&vec![locality(0, None, &[]); 10_001]).expect_err("too many");
    assert!(why.starts_with("endpoints has 10001 entries"), "{why}");
}

#[test]
fn metadata_sets_the_probe_port() {
    let with = |value: Option<Kind>| {
        let own = Struct {
            fields: [("probe_port".to_owned(), Value { kind: value })].into(),
        };
        let metadata = Metadata {
            filter_metadata: [("slackwater".to_owned(), own)].into(),
        };
        let changed = LbEndpoint {
            metadata: Some(metadata.encode_to_vec().into()),
            ..endpoint(1)
        };
        read(&[locality(0, None, &[changed])]).map(|read| read.endpoints[0].probe_port)
    };
    assert_eq!(with(Some(Kind::Number(9000.0))), Ok(NonZeroU16::new(9000)));
    for wrong in [0.0, 1.5, 65_536.0, -1.0, f64::NAN] {
        let why = with(Some(Kind::Number(wrong))).expect_err("no port");
        assert!(
            why.starts_with("endpoints[0].lb_endpoints[0].metadata.filter_metadata.slackwater.probe_port is not a port"),
            "{why}"
        );
    }
    assert!(with(Some(Kind::Text("9000".to_owned()))).is_err());
    let large = LbEndpoint {
        metadata: Some(vec![0; (64 << 10) + 1].into()),
        ..endpoint(1)
    };
    let why = read(&[locality(0, None, &[large])]).expect_err("too large");
    assert!(why.contains("metadata has 65537 bytes"), "{why}");
}

#[test]
fn drops_are_reported_and_not_done() {
    let with = |numerator| {
        let message = ClusterLoadAssignment {
            cluster_name: "web".to_owned(),
            endpoints: vec![locality(0, None, &[endpoint(1)])],
            policy: Some(Policy {
                drop_overloads: vec![DropOverload {
                    category: "throttle".to_owned(),
                    drop_percentage: Some(FractionalPercent { numerator }),
                }],
            }),
        };
        Assignment::read(message.encode_to_vec().into()).expect("valid")
    };
    assert_eq!(with(0).remarks, [""; 0]);
    assert_eq!(
        with(5).remarks,
        ["policy.drop_overloads of category \"throttle\" is not supported and ignored"]
    );
    assert_eq!(with(5).endpoints.len(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(read) = Assignment::read(bytes.into()) {
            prop_assert!(read.endpoints.iter().all(|it| it.weight > 0));
        }
    }

    #[test]
    fn shares_are_those_of_the_weights(
        weights in proptest::collection::vec((1_u32..1000, proptest::collection::vec(1_u32..1000, 1..5)), 1..5)
    ) {
        let mut last = 0_u8;
        let localities: Vec<_> = weights.iter().map(|(weight, endpoints)| {
            let endpoints: Vec<_> = endpoints.iter().map(|own| {
                last += 1;
                weighing(last, *own)
            }).collect();
            locality(0, Some(*weight), &endpoints)
        }).collect();
        let read = read(&localities).expect("valid").endpoints;
        let total: f64 = read.iter().map(|it| f64::from(it.weight)).sum();
        let all: f64 = weights.iter().map(|(weight, _)| f64::from(*weight)).sum();
        let mut place = 0;
        for (weight, endpoints) in &weights {
            let sum: f64 = endpoints.iter().map(|own| f64::from(*own)).sum();
            for own in endpoints {
                let expected = f64::from(*weight) / all * f64::from(*own) / sum;
                let found = f64::from(read[place].weight) / total;
                // A weight is rounded to a part of the largest.
                prop_assert!((found - expected).abs() < 1e-3, "{found} for {expected}");
                place += 1;
            }
        }
    }
}
