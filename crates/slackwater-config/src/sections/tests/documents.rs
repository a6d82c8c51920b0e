//! Documents as users write them: quoted keys, a large fleet in one line, files without keys,
//! mistakes beside secrets, and settings without effect.

use super::super::fleet::read_replicas;
use super::super::variables::tests::variables;
use super::*;
use crate::toml_reader::Format;
use core::fmt::Write;

const BASE: &str = "listen = \"127.0.0.1:1\"\nreplicas = [\"127.0.0.1:9\"]\npolicy = \"random\"\n";

fn read(text: &str) -> Result<Loaded, Mistakes> {
    let source = Source::new("f.toml".into(), text.to_owned());
    Config::load_source(Some(&source), &Overrides::default())
}

/// All mistakes in the file, as lines.
fn mistakes_in(text: &str) -> Vec<String> {
    read(text).map_or_else(|mistakes| mistakes.lines(), |_| Vec::new())
}

fn remarks_in(text: &str) -> Vec<String> {
    let remarks = read(text).expect("valid").remarks;
    remarks.iter().map(ToString::to_string).collect()
}

#[test]
fn quoted_key_with_dots_or_brackets_is_unknown() {
    for (section, key) in [
        ("", "tls.client_ca"),
        ("", "admin.listen"),
        ("", "routes[7]"),
        ("routes", "limits.body_bytes_max"),
    ] {
        let service = "[services.a]\npolicy = \"random\"\nreplicas = [\"127.0.0.1:9\"]\n";
        let routes = format!("listen = \"127.0.0.1:1\"\n{service}[[routes]]\nservice = \"a\"\n");
        let (text, field) = if section.is_empty() {
            (format!("{BASE}{key:?} = 1\n"), key.to_owned())
        } else {
            (format!("{routes}{key:?} = 1\n"), format!("routes[0].{key}"))
        };
        let found = mistakes_in(&text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains(&format!(": {field}: unknown key")),
            "{found:?}"
        );
        assert!(
            found[0].ends_with("write it without quotation marks"),
            "{found:?}"
        );
    }
    for key in ["sticky.colour.x", "sticky.coo"] {
        let found = mistakes_in(&format!("{BASE}{key:?} = 1\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(!found[0].contains("quotation"), "{found:?}");
    }
    let found = mistakes_in(&format!("{BASE}[\"replica.tls\"]\nca = \"ca.pem\"\n"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("f.toml:4:2: replica.tls: unknown key"),
        "{found:?}"
    );
}

#[test]
fn keys_that_users_choose_may_have_dots() {
    let found = mistakes_in("listen = \"127.0.0.1:1\"\n[services.\"a.b\"]\npolicy = \"random\"\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("found the name \"a.b\""), "{found:?}");
    let tracing =
        "[tracing]\nendpoint = \"http://127.0.0.1:4317\"\nresource = { \"a.b\" = \"c\" }\n";
    assert_eq!(
        mistakes_in(&format!("{BASE}{tracing}")),
        Vec::<String>::new()
    );
}

#[test]
fn largest_fleet_is_read_from_one_line_of_json() {
    let mut text = "[".to_owned();
    for number in 0..REPLICAS_MAX {
        let gap = if number == 0 { "" } else { "," };
        let [_, _, third, fourth] = u32::try_from(number).expect("small").to_be_bytes();
        write!(
            text,
            "{gap}{{\"address\":\"10.0.{third}.{fourth}:1\",\"weight\":2}}"
        )
        .expect("a string");
    }
    text.push(']');
    let source = Source::new("f.json".into(), text);
    let mut reader = Reader::in_format(&source, Format::Json, "replicas").expect("valid");
    let replicas = read_replicas(&mut reader, "", None, None);
    assert_eq!(reader.finish().1, Vec::new());
    assert_eq!(replicas.len(), REPLICAS_MAX);
}

#[test]
fn file_of_comments_is_valid_beside_complete_flags() {
    let source = Source::new("f.toml".into(), "# all is in the flags\n\n".to_owned());
    let alone = Config::load_source(Some(&source), &Overrides::default());
    let found = alone.expect_err("nothing is set").to_string();
    assert!(found.starts_with("f.toml: is empty, expected"), "{found}");
    Config::load_source(Some(&source), &two_replicas()).expect("complete");
}

#[test]
fn index_of_a_subset_in_the_file_takes_precedence_over_the_variable() {
    let flags = Overrides {
        variables: variables(&[("SLACKWATER_INDEX", "7")]),
        ..Overrides::default()
    };
    let service = "policy = \"random\"\nreplicas = [\"127.0.0.1:9\"]\nsubset.size = 2\n";
    let named = format!(
        "listen = \"127.0.0.1:1\"\n[services.a]\n{service}subset.index = \"none\"\n[services.b]\n{service}\
         [[routes]]\nservices = [{{ name = \"a\", weight = 1 }}, {{ name = \"b\", weight = 1 }}]\n"
    );
    for (text, expected) in [
        (format!("{BASE}subset.size = 2\n"), &[Some(7)][..]),
        (
            format!("{BASE}subset.size = 2\nsubset.index = \"none\"\n"),
            &[None],
        ),
        (
            format!("{BASE}subset.size = 2\nsubset.index = 3\n"),
            &[Some(3)],
        ),
        (named, &[None, Some(7)]),
    ] {
        let shown = read(&text).expect("valid").config.to_toml();
        for text in [text, shown] {
            let source = Source::new("f.toml".into(), text);
            let loaded = Config::load_source(Some(&source), &flags).expect("valid");
            let subsets = loaded.config.services.iter().map(|it| it.subset);
            let indices: Vec<_> = subsets.map(|subset| subset.index.flatten()).collect();
            assert_eq!(indices, expected);
        }
    }
}

#[test]
fn too_many_listeners_in_flags_are_a_mistake() {
    let flags = Overrides {
        listen: (1..66).map(|port| format!("127.0.0.1:{port}")).collect(),
        ..two_replicas()
    };
    let expected = "--listen: found a list of 65, expected from 1 to 64 addresses";
    assert_eq!(mistakes(&flags), [expected]);
}

#[test]
fn values_of_headers_are_not_repeated() {
    let service = "[services.a]\npolicy = \"random\"\nreplicas = [\"127.0.0.1:9\"]\n";
    let base = format!("listen = \"127.0.0.1:1\"\n{service}[[routes]]\nservice = \"a\"\n");
    for key in [
        "request_headers.set = { authorization = \" Bearer s3cret\" }",
        "request_headers.add = \"authorization: Bearer s3cret\"",
        "request_headers = \"authorization: Bearer s3cret\"",
        "request_headers.set = { authorization = \"Bearer s3cret\", host = \"x\" }",
        "headers = [{ name = \"x-key\", exact = \" s3cret\" }]",
        "headers = [\"x-key: s3cret\"]",
    ] {
        let found = read(&format!("{base}{key}\n")).expect_err(key);
        let fault = found.fault_without_source("configuration").to_string();
        assert!(
            fault.starts_with("1 mistake in the configuration:\nf.toml:7:"),
            "{fault}"
        );
        assert!(!fault.contains("s3cret"), "{fault}");
        assert!(!fault.contains("unknown key"), "{fault}");
    }
}

#[test]
fn paths_of_probes_and_checks_can_be_sent() {
    for path in ["/a#b", "/ä", "/a b", "a", "/\\u007f"] {
        for key in ["probe.path", "health.path"] {
            let found = mistakes_in(&format!("{BASE}{key} = \"{path}\"\n"));
            assert_eq!(found.len(), 1, "{key} {path} {found:?}");
            assert!(found[0].contains("expected a path"), "{found:?}");
        }
    }
}

#[test]
fn header_of_the_connection_carries_no_id() {
    for name in ["Host", "connection", "te", "upgrade", "content-length"] {
        let found = mistakes_in(&format!("{BASE}request_id.header = \"{name}\"\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("which cannot carry an id: "), "{found:?}");
    }
}

#[test]
fn shown_configuration_has_no_remarks_on_idle_defaults() {
    for text in [
        BASE.to_owned(),
        format!("{BASE}health.check = \"tcp\"\n"),
        format!("{BASE}sticky = {{ by = \"header\", header = \"x-user\" }}\n"),
    ] {
        let shown = read(&text).expect("valid").config.to_toml();
        let remarks = remarks_in(&shown);
        let sections = ["dns.", "request_id.", "health.", "sticky."];
        let is_of = |remark: &String| sections.iter().any(|section| remark.contains(section));
        assert!(!remarks.iter().any(is_of), "{remarks:?}");
    }
}

#[test]
fn settings_without_effect_are_remarked() {
    let only = |told: &str| format!("warning: does nothing here, only with {told}");
    for (text, field, told) in [
        (
            "health = { check = \"tcp\", path = \"/up\" }",
            "health.path",
            "health.check = \"http\"",
        ),
        (
            "health = { check = \"tcp\", host = \"a\" }",
            "health.host",
            "health.check = \"http\" or \"grpc\"",
        ),
        (
            "health = { check = \"http\", grpc_service = \"a\" }",
            "health.grpc_service",
            "health.check = \"grpc\"",
        ),
        (
            "health = { check = \"grpc\", statuses = [200] }",
            "health.statuses",
            "health.check = \"http\"",
        ),
        ("hedge.budget = 0.5", "hedge.budget", "hedge.enabled = true"),
        ("tie.burst = 5", "tie.burst", "tie.enabled = true"),
        (
            "request_id.to_client = true",
            "request_id.to_client",
            "request_id.header",
        ),
        (
            "dns.servers = [\"10.0.0.53\"]",
            "dns.servers",
            "discovery.dns or discovery.srv",
        ),
        (
            "sticky = { by = \"cookie\", header = \"x-a\" }",
            "sticky.header",
            "sticky.by = \"header\"",
        ),
        (
            "sticky = { by = \"address\", cookie_secure = true }",
            "sticky.cookie_secure",
            "sticky.by = \"cookie\"",
        ),
    ] {
        let found = remarks_in(&format!("{BASE}{text}\n"));
        assert_eq!(found.len(), 1, "{text} {found:?}");
        assert!(
            found[0].ends_with(&format!("{field}: {}", only(told))),
            "{found:?}"
        );
    }
    for text in [
        "hedge = { enabled = false, budget = 0.5 }",
        "tie = { enabled = false, burst = 5 }",
        "health = { check = \"grpc\", host = \"a\", grpc_service = \"b\" }",
        "request_id = { header = \"x-id\", to_client = true }",
        "sticky = { by = \"cookie\", cookie = \"a\" }",
        "sticky = { by = \"header\", header = \"x-a\" }",
    ] {
        assert_eq!(
            remarks_in(&format!("{BASE}{text}\n")),
            Vec::<String>::new(),
            "{text}"
        );
    }
}

#[test]
fn attributes_with_any_key_are_shown_as_toml() {
    for key in ["\\u0001", "'\\\"", "a\\nb", "", "a.b", "plain"] {
        let resource = format!("resource = {{ \"{key}\" = \"'\\\"\\u0001\" }}");
        let text = format!("{BASE}[tracing]\nendpoint = \"http://127.0.0.1:4317\"\n{resource}\n");
        let config = read(&text).expect("valid").config;
        let again = read(&config.to_toml()).expect("the shown configuration is valid");
        assert_eq!(again.config.tracing.resource, config.tracing.resource);
    }
}
