//! Tests of clusters' policies: what each field sets, which are ignored, which mistakes.

use super::*;
use crate::sections::{ChosenPolicy, Config, Loaded, Overrides, PolicyCluster, SettingOverrides};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

fn config(value: &Value) -> PolicyConfig {
    PolicyConfig::new(value.as_object().expect("an object").clone())
}

fn read(value: &Value) -> ClusterPolicy {
    read_all(value).0
}

/// The policy, and what is ignored.
fn read_all(value: &Value) -> (ClusterPolicy, Vec<String>) {
    ClusterPolicy::read(&config(value)).expect("valid")
}

/// Keys with their values, `key = value`.
fn keys(policy: &ClusterPolicy) -> Vec<String> {
    let keys = policy.keys();
    keys.map(|(key, value)| format!("{key} = {value}"))
        .collect()
}

/// Every field that the Go configuration has (`go/grpc/config.go`).
#[test]
fn fields_of_grpc_clients_are_keys_of_a_service() {
    let all = json!({
        "policy": "prequal",
        "probe": {"transport": "udp", "port": 9000, "path": "/load", "key": "k"},
        "key": {
            "metadata": "x-user", "secret": "s", "balanceFactor": 1.25, "set": 3, "partitions": 16,
            "replicateMax": 2, "replicateAbove": 0.25, "replicateTime": "5s",
        },
        "health": "off",
        "prequal": {
            "probeRate": 3, "probeRateMin": 0.5, "removeRate": 1.5, "poolCapacity": 20,
            "reportAgeMax": "1.5s", "rifLimitQuantile": 0.8, "poolDrift": 1, "reuseMax": 2,
            "probeIdleMax": "0.050s", "idleProbes": 1, "probeIntervalMin": "0", "probeDeadline": "0m59s",
            "probesOutstandingMax": 32, "probesPerSecondMax": 100, "syncProbes": 4,
            "syncDeadline": "3ms", "localOnly": false,
        },
        "shortestExpectedDelay": {"probeRate": 1, "latencyBand": 0.5, "costBand": 0},
        "explain": 16,
    });
    let (policy, remarks) = read_all(&all);
    assert_eq!(
        keys(&policy),
        [
            "error_aversion.enabled = false",
            "key.balance_factor = 1.25",
            "key.by = [\"grpc:x-user\"]",
            "key.partitions = 16",
            "key.replicate_above = 0.25",
            "key.replicate_max = 2",
            "key.replicate_time = \"5s\"",
            "key.set = 3",
            "latency_probation.enabled = false",
            "policy = \"prequal\"",
            "prequal.idle_probes = 1",
            "prequal.local_only = false",
            "prequal.pool_capacity = 20",
            "prequal.pool_drift = 1",
            "prequal.probe_deadline = \"59s\"",
            "prequal.probe_idle_max = \"50ms\"",
            "prequal.probe_interval_min = \"0s\"",
            "prequal.probe_rate = 3",
            "prequal.probe_rate_min = 0.5",
            "prequal.probes_outstanding_max = 32",
            "prequal.probes_per_second_max = 100",
            "prequal.remove_rate = 1.5",
            "prequal.report_age_max = \"1500ms\"",
            "prequal.reuse_max = 2",
            "prequal.rif_limit_quantile = 0.8",
            "prequal.sync_deadline = \"3ms\"",
            "prequal.sync_probes = 4",
            "probe.path = \"/load\"",
            "probe.port = 9000",
            "probe.transport = \"udp\"",
            "shortest_expected_delay.cost_band = 0",
            "shortest_expected_delay.latency_band = 0.5",
            "shortest_expected_delay.probe_rate = 1",
        ]
    );
    assert_eq!(
        remarks,
        [
            "load_balancing_policy: explain is ignored: decisions.* is for the process",
            "load_balancing_policy: key.secret is ignored: key.seed_file applies",
            "load_balancing_policy: probe.key is ignored: probe.key_file applies",
        ]
    );
}

#[test]
fn an_empty_configuration_is_the_default_policy() {
    let default = format!("policy = {:?}", DEFAULT_POLICY.name);
    for empty in [
        json!({}),
        json!({"policy": null, "prequal": {}, "probe": null}),
    ] {
        assert_eq!(keys(&read(&empty)), [default.as_str()]);
    }
    assert!(ClusterPolicy::default().is_empty());
}

#[test]
fn probes_of_grpc_and_unknown_fields_leave_the_proxys_own() {
    let (policy, remarks) = read_all(&json!({
        "policy": "random", "health": "standard", "probe": {"transport": "grpc", "tls": true},
        "hedging": {"a": 1}, "prequal": {"poolSize": 3},
    }));
    assert_eq!(
        keys(&policy),
        ["error_aversion.enabled = true", "policy = \"random\""]
    );
    assert_eq!(
        remarks,
        [
            "load_balancing_policy: probe.transport \"grpc\" is gRPC's own and ignored",
            "load_balancing_policy: unknown fields are ignored: hedging, prequal.poolSize, probe.tls",
        ]
    );
    let unknown = (0..20).map(|n| (format!("f{n}"), json!(1)));
    let (_, many) = read_all(&Value::Object(unknown.collect()));
    assert!(many[0].ends_with(" and 12 more"), "{many:?}");
}

/// gRPC-Go has the same test (`go/grpc/config_vectors_test.go`).
#[test]
fn grpc_clients_accept_and_reject_the_same_configurations() {
    let folder = std::env::var_os("SLACKWATER_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors"),
        PathBuf::from,
    );
    let file = folder.join("cluster-policy/configurations.json");
    let text = std::fs::read_to_string(file).expect("the vectors");
    let cases: Value = serde_json::from_str(&text).expect("JSON");
    let mut differences = Vec::new();
    for (list, is_accepted) in [("accepted", true), ("rejected", false)] {
        let cases = cases[list].as_array().expect("a list");
        assert!(!cases.is_empty());
        for case in cases {
            let read = ClusterPolicy::check(&config(&case["config"]));
            if read.is_ok() != is_accepted {
                differences.push(format!("{list}: {}: {read:?}", case["name"]));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn numbers_are_rounded_to_millionths_and_durations_are_exact() {
    for (section, name, value, expected) in [
        (
            "prequal",
            "rifLimitQuantile",
            json!(0.800_000_011_920_929),
            "0.8",
        ),
        ("prequal", "rifLimitQuantile", json!(0.1 + 0.2), "0.3"),
        ("prequal", "probeRate", json!(1.000_000_5), "1.000001"),
        ("prequal", "probeRate", json!(1.000_000_4), "1.0"),
        ("prequal", "probeRate", json!(1e-7), "0.0"),
        ("prequal", "poolCapacity", json!(20.0), "20"),
        ("prequal", "probeDeadline", json!(".5s"), "\"500ms\""),
        ("prequal", "probeDeadline", json!("+1.s"), "\"1s\""),
        ("prequal", "probeDeadline", json!("1.5ns"), "\"1ns\""),
        ("prequal", "probeDeadline", json!("0.3µs0.3μs"), "\"600ns\""),
        (
            "prequal",
            "reportAgeMax",
            json!("0.1h0.01m"),
            "\"360600ms\"",
        ),
        ("key", "balanceFactor", json!(99.5), "\"9950%\""),
        ("key", "balanceFactor", json!(100), "\"10000%\""),
        (
            "key",
            "balanceFactor",
            json!(250.123_456),
            "\"25012.3456%\"",
        ),
        (
            "key",
            "balanceFactor",
            json!(1_000.000_000_4),
            "\"100000%\"",
        ),
    ] {
        let fields = json!({section: {"metadata": "x-user", name: value}});
        let key = KEYS[&format!("{section}.{name}")].as_str();
        let policy = read(&fields);
        let found = policy.keys().find(|(name, _)| *name == key);
        assert_eq!(found, Some((key, expected)), "{fields}");
    }
}

/// A policy's values are written as a file has them, also when the configuration is shown.
#[test]
fn a_large_balance_factor_is_shown_as_a_percentage() {
    let mut over = SettingOverrides::default();
    let chosen = read(&json!({"key": {"metadata": "x-user", "balanceFactor": 250.5}}));
    over.choose("default", by_web(chosen));
    let loaded = load(SHORT, &Overrides::default(), &over).expect("valid");
    let shown = loaded.config.shown_value("default", "key.balance_factor");
    assert_eq!(shown.as_deref(), Some("\"25050%\""));
    assert_eq!(loaded.config.services[0].key.balance_factor, 250_500_000);
}

/// gRPC clients use port and path with `"udp"` and `"http"` alone.
#[test]
fn the_port_of_probes_counts_with_their_transport_alone() {
    for transport in [json!("grpc"), Value::Null] {
        let probe = json!({"transport": transport, "port": 9000, "path": "/load"});
        let (policy, remarks) = read_all(&json!({"probe": probe}));
        let default = format!("policy = {:?}", DEFAULT_POLICY.name);
        assert_eq!(keys(&policy), [default]);
        for key in ["probe.port", "probe.path"] {
            let remark = format!(
                "load_balancing_policy: {key} is ignored without probe.transport \"udp\" or \"http\""
            );
            assert!(remarks.contains(&remark), "{remarks:?}");
        }
    }
    let (policy, remarks) = read_all(&json!({"probe": {"transport": "udp", "port": 9000}}));
    assert!(keys(&policy).contains(&"probe.port = 9000".to_owned()));
    assert_eq!(remarks, [""; 0]);
}

#[test]
fn names_with_a_point_are_unknown() {
    let dotted = json!({"prequal.probeRate": 3, "key.set": 2, "prequal": {"a.b": 1}});
    let (policy, remarks) = read_all(&dotted);
    let default = format!("policy = {:?}", DEFAULT_POLICY.name);
    assert_eq!(keys(&policy), [default]);
    assert_eq!(
        remarks,
        [
            "load_balancing_policy: unknown fields are ignored: key.set, prequal.a.b, prequal.probeRate"
        ]
    );
}

#[test]
fn unknown_names_are_shown_in_one_short_line() {
    let long = "n".repeat(1000);
    let (_, remarks) = read_all(&json!({"x\n<0>y": 1, "probe": {long.as_str(): 1}}));
    let cut = "n".repeat(58);
    assert_eq!(
        remarks,
        [format!(
            "load_balancing_policy: unknown fields are ignored: probe.{cut}…, x<0>y"
        )]
    );
}

#[test]
fn mistakes_name_the_field_in_camel_case() {
    for (wrong, field, message) in [
        (json!({"policy": "prequel"}), "policy", "found \"prequel\""),
        (json!({"policy": 3}), "policy", "found 3"),
        (json!({"policy": {"a": 1}}), "policy", "found an object"),
        (
            json!({"prequal": 3}),
            "prequal",
            "found 3, expected an object",
        ),
        (
            json!({"prequal": {"poolCapacity": 1}}),
            "prequal.poolCapacity",
            "found 1, expected from 2 to 256",
        ),
        (
            json!({"prequal": {"poolCapacity": 2.5}}),
            "prequal.poolCapacity",
            "found 2.5",
        ),
        (
            json!({"prequal": {"probeRate": "3"}}),
            "prequal.probeRate",
            "found \"3\"",
        ),
        (
            json!({"prequal": {"probeDeadline": 3}}),
            "prequal.probeDeadline",
            "found 3",
        ),
        (
            json!({"prequal": {"probeDeadline": "soon"}}),
            "prequal.probeDeadline",
            "found \"soon\"",
        ),
        (
            json!({"health": "good"}),
            "health",
            "found \"good\", expected \"standard\" or \"off\"",
        ),
        (
            json!({"probe": {"transport": "tcp"}}),
            "probe.transport",
            "found \"tcp\"",
        ),
        (json!({"probe": {"port": 0}}), "probe.port", "found 0"),
        (
            json!({"probe": {"path": "load"}}),
            "probe.path",
            "found \"load\"",
        ),
        (json!({"key": {"set": 2}}), "key.metadata", "is missing"),
        (
            json!({"key": {"metadata": null}}),
            "key.metadata",
            "is missing",
        ),
        (
            json!({"key": {"metadata": "a b"}}),
            "key.metadata",
            "found \"a b\", expected the name of metadata with text values",
        ),
        (
            json!({"key": {"metadata": 3}}),
            "key.metadata",
            "found 3, expected the name",
        ),
        (
            json!({"key": {"metadata": "x", "set": 17}}),
            "key.set",
            "found 17, expected a number from 1 to 16",
        ),
        (
            json!({"key": {"metadata": "x", "replicateMax": 2}}),
            "key.replicateMax",
            "expected",
        ),
        (
            json!({"policy": "prequal_sync", "probe": {"transport": "none"}}),
            "probe.transport",
            "found \"none\" with",
        ),
    ] {
        assert_mistake(&wrong, field, message);
    }
}

fn assert_mistake(wrong: &Value, field: &str, message: &str) {
    let mistake = ClusterPolicy::check(&config(wrong)).expect_err("wrong");
    let found = mistake.message;
    assert_eq!(mistake.field, field, "{wrong}: {found}");
    assert!(found.starts_with(message), "{wrong}: {found}");
    assert!(!found.chars().any(char::is_control), "{found}");
}

#[test]
fn values_that_grpc_clients_reject_are_mistakes() {
    for (wrong, field, message) in [
        (
            json!({"probe": {"key": "k"}}),
            "probe.key",
            "found with probe.transport \"grpc\", expected \"udp\" or \"http\"",
        ),
        (
            json!({"explain": 1025}),
            "explain",
            "found 1025, expected a whole number from 0 to 1024",
        ),
        (
            json!({"key": {"metadata": "x", "balanceFactor": "125%"}}),
            "key.balanceFactor",
            "found \"125%\", expected 0 or a number from 1 to 1000",
        ),
        (
            json!({"health": "x\n\u{85}".repeat(99)}),
            "health",
            "found \"x\\nx\\nx",
        ),
    ] {
        assert_mistake(&wrong, field, message);
    }
}

fn load(text: &str, flags: &Overrides, over: &SettingOverrides) -> Result<Loaded, String> {
    let source = Source::new("a.toml".into(), text.to_owned());
    Config::load_over(Some(&source), flags, over).map_err(|mistakes| mistakes.in_a_line())
}

const SHORT: &str = "listen = \"127.0.0.1:8080\"\npolicy = \"random\"\nprequal.reuse_max = 3\n\
                     discovery.xds_cluster = \"web\"\nxds.server = \"http://127.0.0.1:1\"\n";
const NAMED: &str = "listen = \"127.0.0.1:8080\"\nxds.server = \"http://127.0.0.1:1\"\n\
                     [services.web]\npolicy = \"random\"\nprequal.reuse_max = 3\n\
                     discovery.xds_cluster = \"web\"\n[[routes]]\nservice = \"web\"\n";

/// This policy, as the cluster of these files chooses it.
fn by_web(policy: impl Into<Arc<ClusterPolicy>>) -> ChosenPolicy {
    ChosenPolicy {
        policy: policy.into(),
        by: PolicyCluster {
            name: "web".to_owned(),
            server: "http://127.0.0.1:1/".to_owned(),
        },
        since: SystemTime::UNIX_EPOCH,
    }
}

#[test]
fn a_policy_is_over_the_file_and_under_the_operators_settings() {
    let chosen = json!({"policy": "prequal", "prequal": {"poolCapacity": 20}});
    let chosen = Arc::new(read(&chosen));
    for (text, service) in [(SHORT, "default"), (NAMED, "web")] {
        let mut over = SettingOverrides::default();
        over.choose(service, by_web(Arc::clone(&chosen)));
        over.choose("gone", by_web(Arc::clone(&chosen)));
        assert!(over.is_empty(), "the operator has set nothing");
        let loaded = load(text, &Overrides::default(), &over).expect("valid");
        let found = |key| loaded.config.shown_value(service, key);
        assert_eq!(found("policy").as_deref(), Some("\"prequal\""));
        assert_eq!(found("prequal.pool_capacity").as_deref(), Some("20"));
        assert_eq!(
            found("prequal.reuse_max").as_deref(),
            Some("3"),
            "the file's"
        );

        let place = (service, "policy");
        let set = over.set(
            &loaded.config,
            place,
            &json!("round_robin"),
            SystemTime::UNIX_EPOCH,
        );
        set.expect("may be set");
        let instead_of = over
            .iter()
            .next()
            .and_then(|(_, _, set)| set.instead_of.clone());
        assert_eq!(instead_of.as_deref(), Some("\"prequal\""));
        let loaded = load(text, &Overrides::default(), &over).expect("valid");
        let found = |key| loaded.config.shown_value(service, key);
        assert_eq!(found("policy").as_deref(), Some("\"round_robin\""));
        assert_eq!(found("prequal.pool_capacity").as_deref(), Some("20"));

        over.forget(None);
        assert!(over.forget_absent(&loaded.config).is_empty());
        let left: Vec<_> = over.chosen().keys().map(String::as_str).collect();
        assert_eq!(left, [service]);
        over.choose(service, by_web(ClusterPolicy::default()));
        assert_eq!(over, SettingOverrides::default(), "none is chosen any more");
    }
    let flags = Overrides {
        policy: Some("least_loaded".to_owned()),
        ..Overrides::default()
    };
    let mut over = SettingOverrides::default();
    over.choose("default", by_web(chosen));
    let loaded = load(SHORT, &flags, &over).expect("valid");
    assert_eq!(loaded.config.services[0].policy.name, "prequal");
}

#[test]
fn a_policy_ends_where_the_fleet_is_not_its_clusters() {
    let chosen = Arc::new(read(&json!({"policy": "prequal"})));
    for (of_web, other) in [
        ("xds_cluster", "xds"),
        ("xds_cluster = \"web\"", "xds_cluster = \"api\""),
        ("127.0.0.1:1", "127.0.0.1:2"),
    ] {
        let mut over = SettingOverrides::default();
        over.choose("default", by_web(Arc::clone(&chosen)));
        let text = SHORT.replace(of_web, other);
        let loaded = load(&text, &Overrides::default(), &over).expect("valid");
        assert_eq!(loaded.config.services[0].policy.name, "random", "{other}");
        over.forget_absent(&loaded.config);
        assert!(over.chosen().is_empty(), "{other}");
    }
}

#[test]
fn a_policy_that_contradicts_the_file_is_named() {
    let mut over = SettingOverrides::default();
    let chosen = read(&json!({"policy": "prequal_sync"}));
    over.choose("default", by_web(chosen));
    let text = format!("{SHORT}probe.transport = \"none\"\n");
    let why = load(&text, &Overrides::default(), &over).expect_err("needs probes");
    assert!(
        why.contains("probe.transport: found \"none\" with policy"),
        "{why}"
    );
    let odd = [("policy".to_owned(), "\"odd\"".to_owned())];
    over.choose("default", by_web(ClusterPolicy::restored(odd)));
    let why = load(SHORT, &Overrides::default(), &over).expect_err("unknown");
    assert!(
        why.starts_with("control plane: policy: found \"odd\""),
        "{why}"
    );
}
