//! Tests of clusters' policies: what each field sets, which are ignored, which mistakes.

use super::*;
use crate::sections::{ChosenPolicy, Config, Loaded, Overrides, PolicyCluster, SettingOverrides};
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
            "prequal.probe_deadline = \"0m59s\"",
            "prequal.probe_idle_max = \"0.050s\"",
            "prequal.probe_interval_min = \"0\"",
            "prequal.probe_rate = 3",
            "prequal.probe_rate_min = 0.5",
            "prequal.probes_outstanding_max = 32",
            "prequal.probes_per_second_max = 100",
            "prequal.remove_rate = 1.5",
            "prequal.report_age_max = \"1.5s\"",
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

#[test]
fn mistakes_name_the_field_in_camel_case() {
    for (wrong, field, told) in [
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
            "found \"grpc:a b\"",
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
        let mistake = ClusterPolicy::check(&config(&wrong)).expect_err("wrong");
        assert_eq!(mistake.field, field, "{wrong}: {}", mistake.message);
        assert!(
            mistake.message.starts_with(told),
            "{wrong}: {}",
            mistake.message
        );
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
    let told = load(&text, &Overrides::default(), &over).expect_err("needs probes");
    assert!(
        told.contains("probe.transport: found \"none\" with policy"),
        "{told}"
    );
    let odd = [("policy".to_owned(), "\"odd\"".to_owned())];
    over.choose("default", by_web(ClusterPolicy::restored(odd)));
    let told = load(SHORT, &Overrides::default(), &over).expect_err("unknown");
    assert!(
        told.starts_with("control plane: policy: found \"odd\""),
        "{told}"
    );
}
