//! The configuration from outside: flags over files, the shown configuration is the one in force,
//! and the documentation names every key. The files are in the fixtures of the command, whose
//! `tests/check.rs` tests the broken ones.

mod documents;
mod foreign_names;
mod pages;
mod shown;
mod tracing;

use super::*;
use crate::routes::{Action, Route};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../slackwater/tests/fixtures");
    fixtures.join(name)
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

impl Config {
    /// Loads a file, if there is one, with these flags over it.
    fn load(file: Option<&Path>, flags: &Overrides) -> Result<Loaded, Mistakes> {
        let source = file.map(Source::read).transpose();
        let source = source.map_err(|mistake| Mistakes::new(vec![mistake]))?;
        Self::load_source(source.as_ref(), flags)
    }
}

/// The first lines of all mistakes in these flags.
fn mistakes(flags: &Overrides) -> Vec<String> {
    let found = Config::load(None, flags).expect_err("these flags are mistaken");
    found.to_string().lines().map(str::to_owned).collect()
}

/// The only service.
fn only(config: &Config) -> &ServiceConfig {
    assert_eq!(config.services.len(), 1);
    &config.services[0]
}

fn addresses(config: &Config) -> Vec<String> {
    let listeners = config.listeners.iter();
    listeners
        .map(|listener| listener.address.to_string())
        .collect()
}

fn two_replicas() -> Overrides {
    Overrides {
        listen: owned(&["127.0.0.1:8080"]),
        replicas: owned(&["127.0.0.1:9001", "127.0.0.1:9002"]),
        ..Overrides::default()
    }
}

#[test]
fn flags_alone_are_a_valid_configuration() {
    let flags = Overrides {
        policy: Some("round_robin".to_owned()),
        workers: Some("3".to_owned()),
        probe: Some("http".to_owned()),
        admin: Some("none".to_owned()),
        ..two_replicas()
    };
    let config = Config::load(None, &flags).expect("valid").config;
    assert_eq!(addresses(&config), ["127.0.0.1:8080"]);
    let service = only(&config);
    assert_eq!(service.name, "default");
    assert!(matches!(
        config.routes[..],
        [Route {
            then: Action::Forward(_),
            ..
        }]
    ));
    assert_eq!(service.replicas.len(), 2);
    assert_eq!(service.policy.name, "round_robin");
    assert_eq!(config.workers.get(), 3);
    assert_eq!(service.probe.transport, ProbeTransport::Http);
    assert_eq!(config.admin.listen, None);
}

#[test]
fn services_without_a_policy_are_listed() {
    let text = "listen = \"127.0.0.1:1\"\n[services.web]\nreplicas = [\"127.0.0.1:3\"]\npolicy = \"random\"\n\
                [services.api]\nreplicas = [\"127.0.0.1:4\"]\n[[routes]]\npath_prefix = \"/api\"\nservice = \"api\"\n\
                [[routes]]\nservice = \"web\"\n";
    let source = Source::new("a.toml".into(), text.to_owned());
    let loaded = Config::load_source(Some(&source), &Overrides::default()).expect("valid");
    assert_eq!(loaded.policies_unnamed, ["api"]);
    let flags = Overrides {
        policy: Some("shortest_expected_delay".to_owned()),
        ..two_replicas()
    };
    let loaded = Config::load(None, &flags).expect("valid");
    assert!(loaded.policies_unnamed.is_empty(), "also the default");
}

#[test]
fn defaults_are_those_documented() {
    let loaded = Config::load(None, &two_replicas()).expect("valid");
    assert_eq!(loaded.policies_unnamed, ["default"]);
    let config = loaded.config;
    let service = only(&config);
    assert_eq!(service.policy.name, "shortest_expected_delay");
    assert_eq!(service.policy, &slackwater_core::policy::DEFAULT_POLICY);
    // The default policy of the library is made of the same.
    assert_eq!(
        service.policy_settings,
        slackwater_core::policy::PolicySettings::default()
    );
    assert_eq!(
        *service.passive_health,
        slackwater_core::health::HealthSettings::standard()
    );
    assert_eq!(service.probe.transport, ProbeTransport::Udp);
    assert_eq!(service.probe.path, "/prequal/probe");
    assert_eq!(service.replica.protocol, ReplicaProtocol::Http1);
    assert_eq!(config.admin.listen, "127.0.0.1:9900".parse().ok());
    for replica in &service.replicas {
        assert_eq!(replica.probe_address, replica.address);
        assert_eq!(replica.name, replica.address.to_string());
    }
}

#[test]
fn a_flag_wins_over_the_file_and_lists_replace() {
    let flags = Overrides {
        listen: owned(&["127.0.0.1:7000"]),
        replicas: owned(&["127.0.0.1:7001"]),
        policy: Some("random".to_owned()),
        ..Overrides::default()
    };
    let file = fixture("good/everything.toml");
    let config = Config::load(Some(&file), &flags).expect("valid").config;
    let service = only(&config);
    assert_eq!(addresses(&config), ["127.0.0.1:7000"]);
    assert_eq!(service.replicas.len(), 1);
    assert_eq!(service.policy.name, "random");
    assert_eq!(config.workers.get(), 3, "the file's, for no flag was given");
    assert_eq!(
        service.replicas[0].probe_address.port(),
        9100,
        "the file's port, for the flag's replica names none"
    );
}

#[test]
fn mistakes_in_flags_name_the_flag() {
    let nothing = mistakes(&Overrides::default());
    assert_eq!(nothing.len(), 2);
    assert!(
        nothing[0].starts_with("--listen: is missing"),
        "{nothing:?}"
    );
    assert!(
        nothing[1].starts_with("--replicas: is missing"),
        "{nothing:?}"
    );

    let cases: [(&str, Overrides); 6] = [
        (
            "--workers: found \"many\", expected a whole number",
            Overrides {
                workers: Some("many".to_owned()),
                ..two_replicas()
            },
        ),
        (
            "--workers: found 2000, expected a number from 1 to 1,024",
            Overrides {
                workers: Some("2000".to_owned()),
                ..two_replicas()
            },
        ),
        (
            "--policy: found \"rr\", did you mean \"round_robin\"? expected one of \"prequal\"",
            Overrides {
                policy: Some("rr".to_owned()),
                ..two_replicas()
            },
        ),
        (
            "--replicas: 127.0.0.1:9001 is \"127.0.0.1:9001\" again",
            Overrides {
                replicas: owned(&["127.0.0.1:9001", "127.0.0.1:9001"]),
                ..two_replicas()
            },
        ),
        (
            "--admin: listen (127.0.0.1:8080) and admin.listen (127.0.0.1:8080) collide",
            Overrides {
                admin: Some("127.0.0.1:8080".to_owned()),
                ..two_replicas()
            },
        ),
        (
            "--probe: found \"none\" with policy = \"prequal_sync\"",
            Overrides {
                policy: Some("prequal_sync".to_owned()),
                probe: Some("none".to_owned()),
                ..two_replicas()
            },
        ),
    ];
    for (start, flags) in cases {
        let found = mistakes(&flags);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(start), "{found:?}");
    }
}

#[test]
fn fault_of_the_command_lists_all_mistakes() {
    let found = Config::load(None, &Overrides::default()).expect_err("nothing is set");
    let fault = crate::fault::Fault::from(found).to_string();
    assert!(
        fault.starts_with("2 mistakes in the configuration:\n--listen: "),
        "{fault}"
    );
}

#[test]
fn long_list_of_mistakes_is_cut_and_the_rest_counted() {
    let flags = Overrides {
        replicas: (0..250).map(|number| format!("a b:{number}")).collect(),
        ..two_replicas()
    };
    let told = mistakes(&flags);
    assert_eq!(told.len(), 101);
    assert_eq!(told[100], "and 150 more");
}

#[test]
fn no_transport_means_local_only() {
    let flags = Overrides {
        probe: Some("none".to_owned()),
        ..two_replicas()
    };
    let config = Config::load(None, &flags).expect("valid").config;
    assert!(only(&config).policy_settings.prequal.local_only);
}

#[test]
fn host_name_is_resolved_at_load() {
    let flags = Overrides {
        replicas: owned(&["localhost:9001"]),
        ..two_replicas()
    };
    let config = Config::load(None, &flags).expect("localhost").config;
    let replica = &only(&config).replicas[0];
    assert!(replica.address.ip().is_loopback());
    assert_eq!(replica.address.port(), 9001);
    let flags = Overrides {
        replicas: owned(&["localhost:9001", "127.0.0.1:9001"]),
        ..two_replicas()
    };
    if replica.address.is_ipv4() {
        assert!(
            mistakes(&flags)[0].contains("again"),
            "the same in disguise"
        );
    }
}

/// It numbers the subsets that the file leaves without a number.
#[test]
fn variable_numbers_subsets() {
    let load = |index| {
        let overrides = Overrides {
            variables: variables::tests::variables(&[("SLACKWATER_INDEX", index)]),
            ..Overrides::default()
        };
        Config::load(Some(&fixture("good/subsets.toml")), &overrides)
    };
    let loaded = load(" 7 ").expect("valid").config;
    let index = |name: &str| {
        let service = loaded.services.iter().find(|service| service.name == name);
        service.expect(name).subset.index.flatten()
    };
    assert_eq!(index("small"), Some(7));
    assert_eq!(index("sticky"), Some(0), "as the file says");
    assert_eq!(index("idle"), Some(1), "as the file says");
    for bad in ["web-7", "-1", "1048577"] {
        let told = load(bad).expect_err(bad).to_string();
        let expected =
            format!("SLACKWATER_INDEX: subset.index: found {bad:?}, expected a number from 0 to");
        assert!(told.contains(&expected), "{told}");
    }
}

#[test]
fn every_value_in_the_full_fixture_differs_from_its_default() {
    let line = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let everything = Config::load(
        Some(&fixture("good/everything.toml")),
        &Overrides::default(),
    );
    let full = line(&everything.expect("valid").config.to_toml());
    let flags = Overrides {
        listen: owned(&["127.0.0.1:8088"]),
        ..two_replicas()
    };
    let default = Config::load(None, &flags).expect("valid").config.to_toml();
    let same: Vec<_> = (default.lines())
        .filter(|shown| shown.contains(" = ") && !shown.ends_with('[') && full.contains(*shown))
        .collect();
    // These are the values that do not depend on probes. Mechanisms that are off show no settings.
    assert_eq!(
        same,
        [
            "transport = \"udp\"",
            "local_only = false",
            "enabled = true",
            "by_evidence = true",
            "service = \"default\""
        ]
    );
}

#[test]
fn services_with_conflicting_cookies_cause_a_warning() {
    let file = std::env::temp_dir().join(format!("slackwater-cookies-{}.toml", std::process::id()));
    let remarks = |own: &str, routes: &str| {
        let text = format!(
            "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[listeners]]\naddress = \"127.0.0.1:2\"\n\
             [services.web]\nreplicas = [\"127.0.0.1:3\"]\n[services.web.sticky]\nby = \"cookie\"\n\
             [services.api]\nreplicas = [\"127.0.0.1:4\"]\n[services.api.sticky]\n{own}\n{routes}"
        );
        std::fs::write(&file, text).expect("a file for the test");
        let loaded = Config::load(Some(&file), &Overrides::default()).expect("valid");
        let remarks = loaded.remarks.iter().map(ToString::to_string);
        let remarks = remarks.filter(|remark| remark.contains("give one of them"));
        remarks.collect::<Vec<_>>()
    };
    let by_cookie = "by = \"cookie\"";
    let route = |when: &str, service: &str| format!("[[routes]]\n{when}\nservice = {service}\n");
    let by_path = route("path_prefix = \"/api\"", "\"api\"") + &route("", "\"web\"");
    let split = "[[routes]]\nservices = [{ name = \"web\", weight = 95 }, { name = \"api\", weight = 5 }]\n";
    for routes in [by_path.as_str(), split] {
        let found = remarks(by_cookie, routes);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("that of service \"web\""), "{found:?}");
    }
    let own_name = format!("{by_cookie}\ncookie = \"api\"");
    assert!(remarks(&own_name, &by_path).is_empty());
    assert!(remarks("by = \"address\"", &by_path).is_empty());
    let by = |web: &str, api: &str| route(api, "\"api\"") + &route(web, "\"web\"");
    let by_host = by("host = \"a.test\"", "host = \"b.test\"");
    assert!(remarks(by_cookie, &by_host).is_empty());
    let by_listener = by(
        "listeners = [\"127.0.0.1:1\"]",
        "listeners = [\"127.0.0.1:2\"]",
    );
    assert!(remarks(by_cookie, &by_listener).is_empty());
    let _ = std::fs::remove_file(&file);
}

#[cfg(unix)]
#[test]
fn world_readable_token_causes_a_warning_and_is_never_shown() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::env::temp_dir().join(format!("slackwater-token-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    let (token, file) = (directory.join("token"), directory.join("c.toml"));
    let secret = "00112233445566778899aabbccddeeff";
    let text = |listen: &str| {
        format!(
            "listen = \"127.0.0.1:1\"\nreplicas = [\"127.0.0.1:2\"]\n[admin]\nlisten = \"{listen}\"\n\
             token_file = \"token\"\n"
        )
    };
    std::fs::write(&token, format!("{secret}\n")).expect("a file for the test");
    let remarks = |mode, listen| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&token, permissions).expect("the test's own file");
        std::fs::write(&file, text(listen)).expect("a file for the test");
        let loaded = Config::load(Some(&file), &Overrides::default()).expect("valid");
        assert!(!format!("{loaded:?}").contains(secret));
        let shown = loaded.config.to_toml();
        assert!(
            !shown.contains(secret) && shown.contains("token_file"),
            "{shown}"
        );
        let (token, _) = loaded.config.admin.token.expect("a token");
        assert!(token.is(secret.as_bytes()));
        let remarks: Vec<_> = loaded.remarks.iter().map(ToString::to_string).collect();
        remarks.join("\n")
    };
    for (mode, warned) in [(0o644, true), (0o640, false), (0o600, false)] {
        let told = remarks(mode, "127.0.0.1:3");
        assert_eq!(told.contains("chmod 600"), warned, "{mode:o}: {told}");
        assert!(!told.contains("in the clear"), "{told}");
    }
    assert!(remarks(0o600, "192.0.2.1:3").contains("the token travels in the clear"));
    for odd in ["", "too-short", "sixteen letters and spaces"] {
        std::fs::write(&token, odd).expect("a file for the test");
        let refused = Config::load(Some(&file), &Overrides::default()).expect_err("no token");
        assert!(
            refused.to_string().contains("does not hold a token"),
            "{refused}"
        );
        assert!(
            odd.is_empty() || !refused.to_string().contains(odd),
            "{refused}"
        );
    }
    std::fs::remove_dir_all(&directory).expect("the test's own directory");
}

#[cfg(unix)]
#[test]
fn world_readable_key_causes_a_warning_and_is_never_shown() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::env::temp_dir().join(format!("slackwater-key-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    let (key, file) = (directory.join("key"), directory.join("c.toml"));
    let secret = "00112233445566778899aabbccddeeff";
    std::fs::write(&key, secret).expect("a file for the test");
    let text =
        "listen = \"127.0.0.1:1\"\nreplicas = [\"127.0.0.1:2\"]\n[probe]\nkey_file = \"key\"\n";
    std::fs::write(&file, text).expect("a file for the test");
    for (mode, warned) in [(0o644, true), (0o640, false), (0o600, false)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&key, permissions).expect("the test's own file");
        let loaded = Config::load(Some(&file), &Overrides::default()).expect("valid");
        let remarks: Vec<_> = loaded.remarks.iter().map(ToString::to_string).collect();
        let remarked = remarks.iter().any(|remark| remark.contains("chmod 600"));
        assert_eq!(remarked, warned, "{mode:o}: {remarks:?}");
        assert!(!format!("{loaded:?}").contains(secret));
        assert!(!loaded.config.to_toml().contains(secret));
        let key = only(&loaded.config).probe.key.clone().expect("a key");
        assert_eq!(key.as_bytes()[..3], [0x00, 0x11, 0x22]);
    }
    std::fs::remove_dir_all(&directory).expect("the test's own directory");
}

/// All keys that are read for a fixture, as `section.key`; in a list of tables as `list[].key`;
/// keys of a named service as at the top.
fn fields_of(name: &str) -> BTreeSet<String> {
    let source = Source::read(&fixture(name)).expect("a fixture");
    let reader = Reader::new(Some(&source), Vec::new()).expect("valid TOML");
    let fields = assemble(reader, &Variables::default()).0.into_iter();
    let fields = fields.filter(|field| field != "services.*");
    let at_the_top = |field: String| {
        if let Some(rest) = field.strip_prefix("services.") {
            return rest.split_once('.').expect("a name").1.to_owned();
        }
        let tls = (field.strip_prefix("listeners[].")).filter(|rest| rest.starts_with("tls."));
        tls.map_or(field.clone(), str::to_owned)
    };
    fields.map(at_the_top).collect()
}

/// All keys of both kinds of files.
fn all_fields() -> BTreeSet<String> {
    let mut fields = fields_of("good/everything.toml");
    fields.append(&mut fields_of("good/named_services.toml"));
    fields.append(&mut fields_of("good/routes.toml"));
    fields.retain(|field| !["listeners[]", "routes[]"].contains(&field.as_str()));
    fields
}

#[test]
fn a_service_has_the_same_keys_with_a_name_and_without() {
    let (short, named) = (
        fields_of("good/everything.toml"),
        fields_of("good/named_services.toml"),
    );
    let only_short: Vec<_> = (short.difference(&named))
        .filter(|field| *field != "listen")
        .collect();
    assert_eq!(only_short, Vec::<&String>::new());
    for field in named.difference(&short) {
        assert!(
            field.starts_with("listeners[]") || field.starts_with("routes[]"),
            "{field}"
        );
    }
}

#[test]
fn the_full_fixture_sets_every_key() {
    // A fleet has only one source, and HTTP/2 over TLS has no PROXY headers.
    let mut said = BTreeSet::new();
    for name in ["everything"].into_iter().chain(shown::FLEETS) {
        let file = fixture(&format!("good/{name}.toml"));
        let text = std::fs::read_to_string(file).expect("a fixture");
        let mut section = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[') {
                let name = name.trim_end_matches(']');
                section = match name.strip_prefix("services.") {
                    Some(rest) => rest.split_once('.').expect("a name").1.to_owned() + ".",
                    None => format!("{name}."),
                };
            } else if let Some((key, _)) = line.split_once(" = ")
                && !line.starts_with([' ', '#'])
            {
                said.insert(format!("{section}{key}"));
            }
        }
    }
    said.retain(|field| !field.contains('['));
    let plain: BTreeSet<_> = all_fields()
        .into_iter()
        .filter(|field| !field.contains('['))
        .collect();
    assert_eq!(said, plain);
}

#[test]
fn too_low_probe_rate_is_noted_for_policies_that_remove_by_rate() {
    let noted = |policy: &str| {
        let replicas: Vec<_> = (1..=20).map(|n| format!("127.0.0.1:{n}")).collect();
        let text = format!(
            "listen = '127.0.0.1:0'\nreplicas = {replicas:?}\npolicy = '{policy}'\n\
             prequal.probe_rate = 0.5\n"
        );
        let source = Source::new("config".into(), text);
        let loaded = Config::load_source(Some(&source), &Overrides::default()).expect("valid");
        let mut remarks = loaded.remarks.iter().map(ToString::to_string);
        remarks.any(|remark| remark.contains("so it shrinks to a few"))
    };
    let noted: Vec<_> = ["prequal", "linear", "c3", "rif_then_latency", "random"]
        .into_iter()
        .filter(|policy| noted(policy))
        .collect();
    assert_eq!(noted, ["prequal", "linear", "c3"]);
}
