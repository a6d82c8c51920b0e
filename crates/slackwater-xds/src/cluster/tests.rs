//! Tests of the reading of CDS resources: where the endpoints are, which remarks, which mistakes.

use super::*;
use crate::messages::{
    ClusterLoadAssignment, ConfigSource, CustomClusterType, EdsClusterConfig, LocalityLbEndpoints,
};
use proptest::prelude::*;

fn source(specifier: ConfigSpecifier) -> ConfigSource {
    ConfigSource {
        specifier: Some(specifier),
    }
}

fn eds(service_name: &str, eds_config: Option<ConfigSource>) -> messages::Cluster {
    messages::Cluster {
        name: "web".to_owned(),
        kind: Some(ClusterKind::Type(3)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config,
            service_name: service_name.to_owned(),
        }),
        ..messages::Cluster::default()
    }
}

fn inline(priority: u32) -> messages::Cluster {
    let assignment = ClusterLoadAssignment {
        cluster_name: "any".to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            priority,
            ..LocalityLbEndpoints::default()
        }],
        policy: None,
    };
    messages::Cluster {
        name: "web".to_owned(),
        load_assignment: Some(assignment.encode_to_vec().into()),
        ..messages::Cluster::default()
    }
}

fn read(message: &messages::Cluster) -> Result<Cluster, String> {
    let read = Cluster::read(message.encode_to_vec().into());
    read.map_err(|error| error.to_string())
}

#[test]
fn endpoints_are_in_a_resource_of_the_same_stream() {
    let empty = Bytes::new;
    for config in [
        None,
        Some(source(ConfigSpecifier::Ads(empty()))),
        Some(source(ConfigSpecifier::SameServer(empty()))),
    ] {
        let found = read(&eds("web-2", config)).expect("valid");
        let named = ClusterEndpoints::Resource("web-2".to_owned());
        assert_eq!((found.endpoints, found.remarks.len()), (named, 0));
    }
    let own_name = ClusterEndpoints::Resource("web".to_owned());
    let without_config = messages::Cluster {
        eds_cluster_config: None,
        ..eds("", None)
    };
    for cluster in [eds("", None), without_config] {
        assert_eq!(read(&cluster).expect("valid").endpoints, own_name);
    }
    let longest = "x".repeat(1024);
    let found = read(&eds(&longest, None)).expect("valid");
    assert_eq!(found.endpoints, ClusterEndpoints::Resource(longest));
}

#[test]
fn endpoints_are_in_a_static_cluster_itself() {
    for kind in [None, Some(ClusterKind::Type(0))] {
        let cluster = messages::Cluster { kind, ..inline(0) };
        let found = read(&cluster).expect("valid").endpoints;
        assert_eq!(found, ClusterEndpoints::Inline(Arc::default()));
    }
}

#[test]
fn mistakes_name_the_field() {
    let of_type = |number| messages::Cluster {
        kind: Some(ClusterKind::Type(number)),
        ..eds("", None)
    };
    let custom = messages::Cluster {
        kind: Some(ClusterKind::Custom(CustomClusterType {
            name: "envoy.clusters.aggregate\n".to_owned(),
        })),
        ..inline(0)
    };
    let elsewhere = "eds_cluster_config.eds_config is neither ads nor self";
    let empty = Bytes::new;
    for (cluster, expected) in [
        (of_type(1), "type is STRICT_DNS, expected EDS or STATIC"),
        (of_type(2), "type is LOGICAL_DNS, expected EDS or STATIC"),
        (of_type(4), "type is ORIGINAL_DST, expected EDS or STATIC"),
        (of_type(5), "type is 5, expected EDS or STATIC"),
        (of_type(-1), "type is -1, expected EDS or STATIC"),
        (
            custom,
            "cluster_type is \"envoy.clusters.aggregate\", expected the type EDS or STATIC",
        ),
        (
            of_type(0),
            "load_assignment is missing, expected one in a cluster of the type STATIC",
        ),
        (
            inline(16),
            "load_assignment: endpoints[0].priority is 16, expected 0 to 15",
        ),
        (eds("", Some(ConfigSource::default())), elsewhere),
        (
            eds("", Some(source(ConfigSpecifier::Path(empty())))),
            elsewhere,
        ),
        (
            eds("", Some(source(ConfigSpecifier::Api(empty())))),
            elsewhere,
        ),
        (
            eds("", Some(source(ConfigSpecifier::PathSource(empty())))),
            elsewhere,
        ),
        (
            eds("*", None),
            "eds_cluster_config.service_name is \"*\", expected the name of one EDS resource",
        ),
        (
            eds("a\n", None),
            "eds_cluster_config.service_name is \"a\\n\", expected the name of one EDS resource",
        ),
        (
            eds(&"x".repeat(1025), None),
            "eds_cluster_config.service_name has 1025 bytes, expected the name of one EDS resource",
        ),
        (
            messages::Cluster {
                name: String::new(),
                ..eds("", None)
            },
            "name is \"\", expected the name of one EDS resource",
        ),
    ] {
        let why = read(&cluster).expect_err("wrong");
        assert!(why.starts_with(expected), "{why} / {expected}");
    }
    let why = Cluster::read(Bytes::from_static(b"\x0a\x05")).expect_err("cut off");
    assert_eq!(why.to_string(), "is not a protobuf message");
}

#[test]
fn what_is_not_done_is_remarked_once() {
    let ignored = "is not supported and ignored";
    for (number, field) in IGNORED {
        let mut bytes = eds("", None).encode_to_vec();
        for _ in 0..2 {
            prost::encoding::bytes::encode(number, &Bytes::new(), &mut bytes);
        }
        let found = Cluster::read(bytes.into()).expect("valid");
        assert_eq!(found.remarks, [format!("{field} {ignored}")]);
    }
    for (policy, name) in [
        (0, None),
        (1, Some("LEAST_REQUEST")),
        (2, Some("RING_HASH")),
        (3, Some("RANDOM")),
        (5, Some("MAGLEV")),
        (6, Some("CLUSTER_PROVIDED")),
        (7, None),
        (8, Some("8")),
        (-1, Some("-1")),
    ] {
        let cluster = messages::Cluster {
            lb_policy: policy,
            ..eds("", None)
        };
        let expected = name.map(|name| format!("lb_policy {name} {ignored}"));
        let found = read(&cluster).expect("valid").remarks;
        assert_eq!(found, Vec::from_iter(expected));
    }
}

#[test]
fn remarks_about_a_cluster_come_before_those_about_its_endpoints() {
    let assignment = Arc::new(Assignment {
        left_out: 3,
        remarks: vec!["b".to_owned()],
        ..Assignment::default()
    });
    let mut cluster = read(&eds("", None)).expect("valid");
    assert!(Arc::ptr_eq(&cluster.remark_on(&assignment), &assignment));
    cluster.remarks.push("a".to_owned());
    let both = cluster.remark_on(&assignment);
    assert_eq!((both.left_out, &*both.remarks.concat()), (3, "ab"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(read) = Cluster::read(bytes.into()) {
            prop_assert!(read.remarks.len() <= IGNORED.len() + 1);
        }
    }
}
