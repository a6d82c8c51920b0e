//! Tests of the reading of a cluster's policy: which entry counts, its bounds, and mistakes.

use super::*;
use crate::Cluster;
use crate::PolicyMistake;
use crate::messages::{Any, ListValue, PolicyEntry, TypedExtensionConfig};
use proptest::prelude::*;
use serde_json::json;

const FIELD: &str = "load_balancing_policy.policies[0].typed_extension_config.typed_config";

fn message(value: &Value) -> Message {
    let kind = match value {
        Value::Null => Kind::Null(0),
        Value::Bool(value) => Kind::Bool(*value),
        Value::Number(number) => Kind::Number(number.as_f64().expect("a double")),
        Value::String(text) => Kind::Text(text.clone()),
        Value::Array(values) => Kind::List(ListValue {
            values: values.iter().map(message).collect(),
        }),
        Value::Object(_) => Kind::Struct(fields(value)),
    };
    Message { kind: Some(kind) }
}

fn fields(value: &Value) -> Struct {
    let fields = value.as_object().expect("an object").iter();
    Struct {
        fields: fields
            .map(|(name, value)| (name.clone(), message(value)))
            .collect(),
    }
}

fn entry(type_url: &str, value: Vec<u8>) -> PolicyEntry {
    PolicyEntry {
        typed_extension_config: Some(TypedExtensionConfig {
            typed_config: Some(Any {
                type_url: type_url.to_owned(),
                value: value.into(),
            }),
        }),
    }
}

fn typed(kind: &str, name: &str, value: &Struct) -> PolicyEntry {
    let config = TypedStruct {
        type_url: name.to_owned(),
        value: Some(value.encode_to_vec().into()),
    };
    entry(kind, config.encode_to_vec())
}

/// An entry that is known, with this configuration.
pub(crate) fn slackwater(value: &Value) -> PolicyEntry {
    typed(
        TYPED_STRUCT[0],
        "type.googleapis.com/slackwater",
        &fields(value),
    )
}

/// An encoded list of policies.
pub(crate) fn list(policies: Vec<PolicyEntry>) -> Bytes {
    LoadBalancingPolicy { policies }.encode_to_vec().into()
}

fn in_locality(policies: Vec<PolicyEntry>) -> PolicyEntry {
    let around = WrrLocality {
        endpoint_picking_policy: Some(list(policies)),
    };
    entry(WRR_LOCALITY, around.encode_to_vec())
}

/// What a list leads to: the configuration, `None`, or the mistake.
fn read(policies: Vec<PolicyEntry>) -> Result<Option<Value>, String> {
    let read = NamedPolicy::read(list(policies));
    let config = |it: NamedPolicy| Value::Object(it.config.fields().clone());
    read.map(|found| found.map(config))
        .map_err(|it| it.to_string())
}

#[test]
fn the_first_known_entry_counts() {
    let one = || slackwater(&json!({"policy": "random"}));
    let two = || slackwater(&json!({"policy": "prequal"}));
    let unknown = || {
        typed(
            TYPED_STRUCT[0],
            "type.googleapis.com/other",
            &Struct::default(),
        )
    };
    let envoy = || entry("type.googleapis.com/envoy.Random", b"\xff\xff".to_vec());
    let older = typed(TYPED_STRUCT[1], "slackwater", &Struct::default());
    let found = |name: &str| Ok(Some(json!({"policy": name})));
    assert_eq!(read(vec![one(), two()]), found("random"));
    assert_eq!(
        read(vec![unknown(), envoy(), two(), one()]),
        found("prequal")
    );
    assert_eq!(
        read(vec![
            PolicyEntry::default(),
            in_locality(vec![envoy(), one()])
        ]),
        found("random")
    );
    assert_eq!(
        read(vec![in_locality(vec![unknown()]), two()]),
        found("prequal")
    );
    assert_eq!(read(vec![older]), Ok(Some(json!({}))));
    for none in [vec![], vec![unknown()], vec![envoy(), in_locality(vec![])]] {
        assert_eq!(read(none), Ok(None));
    }
}

#[test]
fn whole_numbers_are_integers() {
    let sent = json!({"a": 3.0, "b": 0.5, "c": null, "d": [true, "x", {"e": -7.0}], "f": 1e300});
    let read = read(vec![slackwater(&sent)])
        .expect("valid")
        .expect("known");
    let meant = json!({"a": 3, "b": 0.5, "c": null, "d": [true, "x", {"e": -7}], "f": 1e300});
    assert_eq!(read, meant);
}

#[test]
fn bounds_are_kept_and_named() {
    let nested = |depth| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    let lists = |depth: usize| {
        let innermost = slackwater(&json!({}));
        (1..depth).fold(innermost, |inner, _| in_locality(vec![inner]))
    };
    let many = |count: usize| {
        let fields = (0..count).map(|n| (format!("f{n}"), json!(1)));
        Value::Object(fields.collect())
    };
    let text = |bytes: usize| json!({"a": "x".repeat(bytes)});
    let large = |texts: usize| {
        let fields = (0..texts).map(|n| (format!("f{n}"), json!("x".repeat(1000))));
        Value::Object(fields.collect())
    };
    for fits in [
        nested(DEPTH_MAX),
        many(FIELDS_MAX),
        text(TEXT_BYTES_MAX),
        large(16),
    ] {
        assert!(read(vec![slackwater(&fits)]).is_ok(), "{fits}");
    }
    assert!(read(vec![lists(NESTED_MAX)]).is_ok());
    assert!(read(vec![PolicyEntry::default(); POLICIES_MAX]).is_ok());
    for (wrong, expected) in [
        (
            nested(DEPTH_MAX + 1),
            ".value.a.a.a.a is too deep, expected at most 4",
        ),
        (
            json!({"a": [[[[1]]]]}),
            ".value.a[0][0][0] is too deep, expected at most 4",
        ),
        (many(FIELDS_MAX + 1), ".value has more than 256 fields"),
        (
            json!({"a": vec![1; FIELDS_MAX]}),
            ".value.a has more than 256 fields",
        ),
        (
            text(TEXT_BYTES_MAX + 1),
            ".value.a has a text of 1025 bytes, expected at most 1024",
        ),
        (
            json!({"x".repeat(1025): 1}),
            ".value has a text of 1025 bytes",
        ),
        (large(17), ".value has 17"),
        (
            json!({"x\n<0>y": {"n".repeat(1000): "x".repeat(1025)}}),
            &format!(".value.x<0>y.{}… has a text of 1025 bytes", "n".repeat(64)),
        ),
    ] {
        let why = read(vec![slackwater(&wrong)]).expect_err("too much");
        assert!(why.starts_with(&format!("{FIELD}{expected}")), "{why}");
    }
    let why = read(vec![lists(NESTED_MAX + 1)]).expect_err("too deep");
    assert!(
        why.ends_with("endpoint_picking_policy is too deep, expected at most 16 lists in another"),
        "{why}"
    );
    let why = read(vec![PolicyEntry::default(); POLICIES_MAX + 1]).expect_err("too many");
    assert_eq!(
        why,
        "load_balancing_policy.policies has 33 entries, expected at most 32"
    );
}

#[test]
fn malformed_entries_are_mistakes_if_their_type_is_known() {
    let infinite = Struct {
        fields: [(
            "a".to_owned(),
            Message {
                kind: Some(Kind::Number(f64::INFINITY)),
            },
        )]
        .into(),
    };
    let broken = TypedStruct {
        type_url: "slackwater".to_owned(),
        value: Some(Bytes::from_static(b"\x0a\x05")),
    };
    for (wrong, expected) in [
        (
            entry(TYPED_STRUCT[0], b"\x0a\x05".to_vec()),
            " is malformed",
        ),
        (entry(WRR_LOCALITY, b"\x0a\x05".to_vec()), " is malformed"),
        (
            entry(WRR_LOCALITY, b"\x0a\x02\x0a\x05".to_vec()),
            ".endpoint_picking_policy is not a protobuf message",
        ),
        (
            entry(TYPED_STRUCT[0], broken.encode_to_vec()),
            ".value is not a protobuf message",
        ),
        (
            typed(TYPED_STRUCT[0], "slackwater", &infinite),
            ".value.a is inf, expected a finite number",
        ),
    ] {
        let why = read(vec![wrong]).expect_err("wrong");
        assert!(why.starts_with(&format!("{FIELD}{expected}")), "{why}");
    }
}

#[test]
fn a_mistake_names_the_field_in_the_cluster() {
    let read = NamedPolicy::read(list(vec![slackwater(&json!({"policy": "x"}))]));
    let policy = read.expect("valid").expect("known");
    assert_eq!(policy.check(|_| Ok(())), Ok(()));
    let in_field = |_: &PolicyConfig| {
        Err(PolicyMistake {
            field: "policy".to_owned(),
            message: "is odd".to_owned(),
        })
    };
    let why = policy.check(in_field).expect_err("odd").to_string();
    assert_eq!(why, format!("{FIELD}.value.policy is odd"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = NamedPolicy::read(bytes.clone().into());
        let _ = read(vec![entry(TYPED_STRUCT[0], bytes.clone())]);
        let mut cluster = Vec::new();
        prost::encoding::bytes::encode(41, &Bytes::from(bytes), &mut cluster);
        let _ = Cluster::read(cluster.into());
    }
}
