//! The section `[key]` and the hint of probes: what is read, refused and remarked on.

use super::*;
use crate::sections::{Config, Loaded, Overrides};
use crate::toml_reader::Source;
use core::time::Duration;

const BASE: &str = "listen = \"127.0.0.1:1\"\nreplicas = [\"127.0.0.1:2\", \"127.0.0.1:3\"]\n\
                    policy = \"least_loaded\"\n";

fn load(toml: &str) -> Result<Loaded, Vec<String>> {
    let source = Source::new("a.toml".into(), format!("{BASE}{toml}"));
    let loaded = Config::load_source(Some(&source), &Overrides::default());
    loaded.map_err(|mistakes| mistakes.lines())
}

fn key(toml: &str) -> KeyRouting {
    let loaded = load(toml).expect("valid");
    loaded.config.services[0].key.clone()
}

fn remarks(toml: &str) -> Vec<String> {
    let remarks = load(toml).expect("valid").remarks;
    remarks.iter().map(|it| it.about.to_string()).collect()
}

#[test]
fn requests_have_no_keys_by_default() {
    let key = key("");
    assert!(!key.is_on());
    assert_eq!(key.balance_factor, 2_000_000);
    assert_eq!(key.seed, None);
}

#[test]
fn sources_are_read_and_shown_in_order() {
    let all = [
        "header:x-user",
        "cookie:connect.sid",
        "cookie:__Host-a!#$%&'*+-.^_`|~",
        "query:user",
        "path",
        "path_prefix:2",
        "address",
        "grpc:x-tenant",
    ];
    let list: Vec<_> = all.iter().map(|source| format!("{source:?}")).collect();
    let toml = format!("key.by = [{}]\n", list.join(", "));
    let read = key(&toml);
    let shown: Vec<_> = read.by.iter().map(ToString::to_string).collect();
    assert_eq!(shown, all);
    assert_eq!(key("key.by = \"path\"\n").by, [KeySource::Path], "alone");

    let config = load(&toml).expect("valid").config;
    let again = Config::of_text("again.toml", config.to_toml()).expect("valid");
    assert_eq!(again.services, config.services);
}

#[test]
fn unknown_sources_are_refused_with_their_place() {
    for source in [
        "",
        "header:",
        "header:a b",
        "header",
        "cookie:",
        "query:",
        "query:a&b",
        "path:2",
        "path_prefix:0",
        "path_prefix:17",
        "path_prefix:+2",
        "path_prefix:",
        "address:1",
        "host",
    ] {
        let mistakes = load(&format!("[key]\nby = {source:?}\n")).expect_err(source);
        let told = format!("a.toml:5:6: key.by: found {source:?}, expected \"header:NAME\"");
        assert!(mistakes[0].starts_with(&told), "{mistakes:?}");
    }
    for (name, other) in [
        ("a=b", '='),
        ("a b", ' '),
        ("a;b", ';'),
        ("[a]", '['),
        ("ä", 'ä'),
    ] {
        let source = format!("cookie:{name}");
        let mistakes = load(&format!("[key]\nby = {source:?}\n")).expect_err(name);
        let told = format!("a.toml:5:6: key.by: found {source:?}: {other:?} is not allowed");
        assert!(mistakes[0].starts_with(&told), "{mistakes:?}");
    }
    let nine = ["\"path\""; 9].join(", ");
    let mistakes = load(&format!("key.by = [{nine}]\n")).expect_err("nine");
    assert!(mistakes[0].contains("at most 8 sources"), "{mistakes:?}");
}

#[test]
fn balance_factor_is_a_factor_or_a_percentage() {
    let factor = |text: &str| {
        let loaded = load(&format!("[key]\nby = \"path\"\nbalance_factor = {text}\n"));
        loaded.map(|it| it.config.services[0].key.balance_factor)
    };
    for (text, millionths) in [
        ("1.25", 1_250_000),
        ("\"125%\"", 1_250_000),
        ("\"125.5%\"", 1_255_000),
        ("1", 1_000_000),
        ("0", 0),
        ("\"0%\"", 0),
        ("99", 99_000_000),
        ("\"9900%\"", 99_000_000),
        ("\"12550.25%\"", 125_502_500),
        ("\"100000%\"", 1_000_000_000),
    ] {
        assert_eq!(factor(text), Ok(millionths), "{text}");
    }
    for text in [
        "0.5",
        "-1",
        "99.5",
        "100",
        "100.5",
        "\"100000.0001%\"",
        "\"50%\"",
        "\"%\"",
        "\"-125%\"",
        "\"125\"",
        "\"1e2%\"",
        "true",
    ] {
        let mistakes = factor(text).expect_err(text);
        assert!(
            mistakes[0].starts_with("a.toml:6:18: key.balance_factor: found"),
            "{mistakes:?}"
        );
    }
    for (text, told) in [
        ("125", "write 1.25 or \"125%\""),
        (
            "100",
            "found 100; did you mean 100 percent? write 1 or \"100%\"",
        ),
        ("112.5", "write 1.125 or \"112.5%\""),
    ] {
        let mistakes = factor(text).expect_err("Envoy's");
        assert!(mistakes[0].contains(told), "{mistakes:?}");
    }
    let mistakes = factor("\"125000%\"").expect_err("too much");
    assert!(!mistakes[0].contains("did you mean"), "{mistakes:?}");
}

#[test]
fn names_of_other_balancers_lead_here() {
    for (toml, told) in [
        (
            "hash_balance_factor = 125\n",
            "write balance_factor = \"125%\" in [key]",
        ),
        (
            "[key]\nby = \"path\"\nhash-balance-factor = 125\n",
            "write balance_factor = \"125%\"",
        ),
        (
            "hash_key = \"x\"\n",
            "write by = \"header:x-user\" in [key]",
        ),
    ] {
        let mistakes = load(toml).expect_err(toml);
        assert!(mistakes[0].contains(told), "{mistakes:?}");
    }
}

#[test]
fn bounds_of_the_choice_are_checked() {
    for (toml, told) in [
        ("set = 0", "expected a number from 1 to 16"),
        ("set = 17", "expected a number from 1 to 16"),
        ("partitions = 16385", "from 0 to 16384"),
        ("replicate_max = 0", "from 1 to 16"),
        ("replicate_above = 0", "above 0 and at most 1"),
        ("replicate_time = \"0s\"", "above 0 and at most 1h"),
        (
            "replicate_max = 2",
            "key.replicate_max: expected 1 without partitions",
        ),
    ] {
        let mistakes = load(&format!("[key]\nby = \"path\"\n{toml}\n")).expect_err(toml);
        assert!(mistakes[0].contains(told), "{mistakes:?}");
    }
    let key = key(
        "[key]\nby = \"path\"\nset = 3\npartitions = 64\nreplicate_max = 8\nreplicate_above = 0.4\nreplicate_time = \"20s\"\n",
    );
    assert_eq!((key.set, key.partitions, key.replicate_max), (3, 64, 8));
    assert_eq!(key.replicate_above.millionths(), 400_000);
    assert_eq!(key.replicate_time, Duration::from_secs(20));
}

#[test]
fn settings_without_effect_are_remarked_on() {
    const SYNC: &str = "probe.hint = \"key\"\n";
    for (toml, told) in [
        (
            "key.set = 2\n",
            Some("key: does nothing without the key by"),
        ),
        ("key.by = \"path\"\n", None),
        ("key.by = \"path\"\nkey.set = 2\n", None),
        (
            "key.by = \"path\"\nkey.set = 3\n",
            Some("is more than the 2 replicas"),
        ),
        (
            "key.by = \"path\"\nkey.partitions = 8\nkey.replicate_time = \"5s\"\n",
            Some("key.replicate_time: does nothing with replicate_max = 1"),
        ),
        (
            "key.by = \"path\"\nsticky.by = \"address\"\n",
            Some("key.by: does nothing beside sticky.by"),
        ),
        (
            "key.by = \"path\"\nsticky.by = \"header\"\nsticky.header = \"x-user\"\n",
            Some("key.by: decides only for requests without sticky.header"),
        ),
        ("key.by = \"path\"\nsticky.by = \"cookie\"\n", None),
        (
            SYNC,
            Some(
                "probe.hint: does nothing with policy = \"least_loaded\", only with \"prequal_sync\"",
            ),
        ),
        (
            "probe.hint_homes = 1\n",
            Some("probe.hint_homes: does nothing without key.by"),
        ),
    ] {
        let found = remarks(toml);
        match told {
            None => assert_eq!(found, [""; 0], "{toml}"),
            Some(told) => assert!(found.iter().any(|it| it.contains(told)), "{toml}{found:?}"),
        }
    }
}

#[test]
fn hints_need_a_policy_with_rounds_and_keys() {
    let sync = BASE.replace("least_loaded", "prequal_sync");
    for (toml, told) in [
        (
            "probe.hint = \"key\"\n",
            Some("probe.hint: does nothing without keys"),
        ),
        ("probe.hint = \"key\"\nkey.by = \"path\"\n", None),
        ("probe.hint = \"header:x-prompt\"\n", None),
        (
            "key.by = \"path\"\nkey.balance_factor = 3\n",
            Some("key.balance_factor: does nothing with policy = \"prequal_sync\""),
        ),
        (
            "key.by = \"path\"\nkey.set = 2\n",
            Some("key.set: does nothing with policy = \"prequal_sync\""),
        ),
        (
            "key.by = \"path\"\nkey.partitions = 8\nkey.replicate_max = 2\n",
            Some("key.replicate_max: does nothing with policy = \"prequal_sync\""),
        ),
        (
            "key.by = \"path\"\nkey.replicate_time = \"5s\"\n",
            Some("key.replicate_time: does nothing with policy = \"prequal_sync\""),
        ),
        (
            "key.by = \"path\"\nprobe.hint_homes = 3\n",
            Some("probe.hint_homes: leaves no random probe with sync_probes = 3"),
        ),
        ("key.by = \"path\"\nprobe.hint_homes = 2\n", None),
        (
            "key.by = \"path\"\nprequal.sync_probes = 2\n",
            Some("prequal.sync_probes: leaves no random probe with probe.hint_homes = 2"),
        ),
        ("prequal.sync_probes = 2\n", None),
    ] {
        let source = Source::new("a.toml".into(), format!("{sync}{toml}"));
        let loaded = Config::load_source(Some(&source), &Overrides::default());
        let found = loaded.expect("valid").remarks;
        let found: Vec<_> = found.iter().map(|it| it.about.to_string()).collect();
        match told {
            None => assert_eq!(found, [""; 0], "{toml}"),
            Some(told) => assert!(found.iter().any(|it| it.contains(told)), "{toml}{found:?}"),
        }
    }
    for hint in ["header:", "x-user", "hash"] {
        let mistakes = load(&format!("probe.hint = {hint:?}\n")).expect_err(hint);
        let told = "expected \"none\", \"key\" or \"header:NAME\"";
        assert!(mistakes[0].contains(told), "{mistakes:?}");
    }
}

#[test]
fn a_seed_is_read_from_its_file_and_never_shown() {
    let name = format!("slackwater-seed-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let toml = format!("[key]\nby = \"path\"\nseed_file = {file:?}\n");
    std::fs::write(&file, "00112233445566778899aabbccddeeff\n").expect("written");
    let loaded = load(&toml).expect("valid");
    let (seed, _) = loaded.config.services[0].key.seed.clone().expect("a seed");
    assert_eq!(seed.as_bytes()[..3], [0x00, 0x11, 0x22]);
    assert_eq!(format!("{seed:?}"), "KeySeed(16 bytes)");
    assert!(!loaded.config.to_toml().contains("0011"), "shown");
    std::fs::write(&file, "0011").expect("written");
    let mistakes = load(&toml).expect_err("too short");
    assert!(mistakes[0].contains("does not hold a seed"), "{mistakes:?}");
    std::fs::remove_file(&file).expect("removed");
}
