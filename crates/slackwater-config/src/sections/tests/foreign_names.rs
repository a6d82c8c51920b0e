//! The names that other software has for our keys, and the messages for them.

use super::*;
use crate::sections::pages::{of_process, of_service};
use crate::table::FOREIGN_NAMES;
use crate::toml_reader::ForeignName;

/// Every row.
fn all() -> impl Iterator<Item = &'static ForeignName> {
    FOREIGN_NAMES.iter().chain(policies::foreign_names::KEYS)
}

const BASE: &str = "listen = \"127.0.0.1:1\"\nreplicas = [\"127.0.0.1:3\"]\n";

/// The first lines of the mistakes in a file of this text.
fn mistakes_in(text: &str) -> Vec<String> {
    let source = Source::new("a.toml".into(), text.to_owned());
    let read = belongs_to_agent(&source).and_then(|is_agents| {
        if is_agents {
            AgentConfig::load_source(Some(&source), &AgentOverrides::default()).map(drop)
        } else {
            Config::load_source(Some(&source), &Overrides::default()).map(drop)
        }
    });
    read.map_or_else(|mistakes| mistakes.lines(), |()| Vec::new())
}

/// A file that sets `key` to `value`, as the message recommends.
fn file_with(key: &str, value: &str) -> String {
    match key.split_once("[].") {
        Some(("replicas", key)) => format!(
            "listen = \"127.0.0.1:1\"\nreplicas = [{{ address = \"127.0.0.1:3\", {key} = {value} }}]\n\
             health.check = \"tcp\"\n"
        ),
        Some(("listeners", key)) => format!(
            "replicas = [\"127.0.0.1:3\"]\n[[listeners]]\naddress = \"127.0.0.1:1\"\n\
             {}{key} = {value}\n",
            match key {
                "proxy_protocol" => "proxy_protocol_trust = [\"10.0.0.0/8\"]\n",
                _ => "",
            }
        ),
        Some((list, "service")) => {
            format!("{BASE}[[{list}]]\nservice = {value}\n").replace("web", "default")
        }
        Some((list, key)) => format!("{BASE}[[{list}]]\nservice = \"default\"\n{key} = {value}\n"),
        None if key == "to" => format!("listen = \"127.0.0.1:1\"\nto = {value}\n"),
        None => {
            let base = BASE.lines().filter(|line| !line.starts_with(key));
            let base: Vec<_> = base.collect();
            format!("{key} = {value}\n{}\n", base.join("\n"))
        }
    }
}

#[test]
fn each_foreign_name_leads_to_an_existing_key() {
    let rows = of_process().into_iter().chain(of_service());
    let mut keys: BTreeSet<String> = rows.map(|row| row.key).collect();
    keys.insert("to".to_owned());
    for ForeignName {
        key, names, within, ..
    } in FOREIGN_NAMES
    {
        let plain = key
            .strip_prefix("listeners[].")
            .filter(|rest| rest.starts_with("tls."));
        let section = format!("{key}.");
        let is_known = keys.contains(*key)
            || plain.is_some_and(|plain| keys.contains(plain))
            || keys.iter().any(|known| known.starts_with(&section));
        assert!(is_known, "{key}");
        for section in *within {
            for name in *names {
                let field = if section.is_empty() {
                    (*name).to_owned()
                } else {
                    format!("{section}.{name}")
                };
                assert!(!keys.contains(&field), "{field} is a key of ours");
            }
        }
    }
}

#[test]
fn each_example_is_valid_for_its_key() {
    for ForeignName { key, example, .. } in all() {
        let text = file_with(key, example);
        let found = mistakes_in(&text);
        // Files that an example names do not exist here.
        let is_file = |line: &&String| line.contains("there is no such file");
        // A key may need others, such as a certificate, or exclude the service of the file's route.
        let needs_others = |line: &&String| {
            line.contains("tls.certificates: is missing") || line.contains("stands beside")
        };
        let mut of_example = found
            .iter()
            .filter(|line| !is_file(line) && !needs_others(line));
        assert_eq!(of_example.next(), None, "{text}");
    }
}

#[test]
fn foreign_key_is_answered_with_the_matching_key() {
    for (text, expected) in [
        (
            "listen = \"127.0.0.1:1\"\nupstreams = [\"a:1\"]\n",
            "upstreams: unknown key, write replicas = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"]",
        ),
        (
            "bind = \"127.0.0.1:1\"\nreplicas = [\"127.0.0.1:3\"]\n",
            "bind: unknown key, write listen = \"0.0.0.0:8080\"",
        ),
        (
            &format!("{BASE}maxAttempts = 3\n"),
            "maxAttempts: unknown key here, did you mean \"attempts_max\" in [retries]?",
        ),
        (
            &format!("{BASE}num-retries = 3\n"),
            "num-retries: unknown key, write attempts_max = 3 in [retries]",
        ),
        (
            &format!("{BASE}[retries]\nmax_attempts = 3\n"),
            "retries.max_attempts: unknown key, did you mean \"attempts_max\"?",
        ),
        (
            &format!("{BASE}client_max_body_size = \"1m\"\n"),
            "client_max_body_size: unknown key, write limits.body_bytes_max = \"1MiB\" in a table [[routes]]",
        ),
        (
            "listen = \"127.0.0.1:1\"\n[services.web]\nbackends = [\"127.0.0.1:3\"]\n",
            "services.web.backends: unknown key, write replicas = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"]",
        ),
        (
            "listen = \"127.0.0.1:1\"\n[services.web]\nreplicas = [\"127.0.0.1:3\"]\nlb_policy = \"x\"\n[[routes]]\nservice = \"web\"\n",
            "services.web.lb_policy: unknown key, write policy = \"least_loaded\"",
        ),
        (
            "listen = \"127.0.0.1:1\"\nproxy_pass = \"x\"\nreplicas = [\"127.0.0.1:3\"]\n",
            "proxy_pass: unknown key, expected one of ",
        ),
        (
            &format!("{BASE}[capacity]\nprobe_rate = 1\n"),
            "capacity: unknown section, write probe_rate = 0.5 in [shortest_expected_delay]",
        ),
    ] {
        let found = mistakes_in(text);
        assert_eq!(found.len(), 1, "{text}{found:?}");
        let found = found[0].split_once(": ").expect("a place").1;
        assert!(found.starts_with(expected), "{text}{found}");
    }
}

#[test]
fn foreign_policy_name_is_answered_with_the_matching_policy() {
    for (name, expected) in [
        ("leastconn", "did you mean \"least_loaded\"?"),
        ("least_conn", "did you mean \"least_loaded\"?"),
        ("LEAST_REQUEST", "did you mean \"least_loaded\"?"),
        ("ROUND_ROBIN", "did you mean \"round_robin\"?"),
        ("roundrobin", "did you mean \"round_robin\"?"),
        ("p2c", "did you mean \"power_of_d\"?"),
        (
            "RING_HASH",
            "which is no policy here: write by = \"header:x-user\" in [key]",
        ),
        (
            "ip_hash",
            "which is no policy here: write by = \"address\" in [sticky]",
        ),
        (
            "capacity",
            "which was removed: write \"shortest_expected_delay\"",
        ),
        ("fastest", "expected one of \"prequal\""),
    ] {
        let found = mistakes_in(&format!("{BASE}policy = {name:?}\n"));
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].contains(expected), "{name}: {found:?}");
    }
}

#[test]
fn other_formats_are_recognised_by_their_first_line() {
    for (text, expected) in [
        (
            "# a comment\nlisten: 0.0.0.0:8080\nreplicas:\n  - 10.0.0.1:80\n",
            Some(
                "a.toml:2:1: syntax: this is YAML, expected TOML: listen = \"0.0.0.0:8080\" in place of listen: 0.0.0.0:8080",
            ),
        ),
        (
            "---\nreplicas:\n- 10.0.0.1:80\n",
            Some(
                "a.toml:2:1: syntax: this is YAML, expected TOML: replicas = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"] in place of a list of lines",
            ),
        ),
        (
            "workers: 4 # one for each core\n",
            Some(
                "a.toml:1:1: syntax: this is YAML, expected TOML: workers = 4 in place of \"workers: 4\"",
            ),
        ),
        (
            "health:\n  check: http\n",
            Some(
                "a.toml:1:1: syntax: this is YAML, expected TOML: [health] in place of \"health:\"",
            ),
        ),
        (
            "{\"listen\": \"0.0.0.0:8080\"}",
            Some("a.toml:1:1: syntax: this is JSON, expected TOML: "),
        ),
        ("listen = \n", None),
        ("upstream app {\n server 10.0.0.1:80;\n}\n", None),
        ("http://a/: x\n", None),
    ] {
        let found = mistakes_in(text);
        let is_told = found.iter().any(|line| line.contains("this is "));
        assert_eq!(is_told, expected.is_some(), "{text}{found:?}");
        if let Some(expected) = expected {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(expected), "{found:?}");
        }
    }
}
