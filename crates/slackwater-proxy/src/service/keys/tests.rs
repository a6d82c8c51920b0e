//! What each source finds in a request, and what its probes carry.

use super::*;
use http::uri::Authority;
use slackwater_config::{Config, Limits};

fn rule(toml: &str) -> Option<KeyRule> {
    let text = format!("listen = \"127.0.0.1:1\"\nreplicas = [\"127.0.0.1:2\"]\n{toml}\n");
    let config = Config::of_text("test.toml", text).expect("valid");
    KeyRule::new(&config.services[0])
}

fn by(sources: &str) -> KeyRule {
    rule(&format!("key.by = {sources}")).expect("keys")
}

fn origin(peer: &str) -> Origin {
    Origin::new(
        &crate::forward::Rules::new(
            &slackwater_config::ForwardedSettings::default(),
            &Limits::default(),
        ),
        peer.parse().expect("an address"),
        Authority::from_static("127.0.0.1:80"),
        0,
    )
}

fn request(target: &str, fields: &[(&'static str, &[u8])]) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::own(Bytes::new()));
    *request.uri_mut() = target.parse().expect("a target");
    for (name, value) in fields {
        let value = http::HeaderValue::from_bytes(value).expect("a value");
        request.headers_mut().append(*name, value);
    }
    request
}

fn hash_of(rule: &KeyRule, target: &str, fields: &[(&'static str, &[u8])]) -> Option<KeyHash> {
    rule.of(&request(target, fields), &origin("10.0.0.9:1"))
        .hash
}

/// The hash of the value that a rule has to find.
fn expected(value: &[u8]) -> KeyHash {
    KeyHasher::default().hash(value)
}

#[test]
fn services_have_no_rule_without_keys_and_hints() {
    assert!(rule("").is_none());
    assert!(rule("policy = \"prequal_sync\"\nprobe.hint = \"header:x-a\"").is_some());
}

#[test]
fn each_source_finds_its_value() {
    let target = "/a/b%2Fc/d?x=1&user=%41b&user=2&flag";
    let fields: &[(&str, &[u8])] = &[
        ("x-user", b"ann"),
        ("x-user", b"other"),
        ("x-empty", b""),
        ("cookie", b"a=b; sid=one ;sid=two"),
        ("cookie", b"last=\xff"),
    ];
    for (source, value) in [
        ("header:x-user", Some(&b"ann"[..])),
        ("header:x-none", None),
        ("header:x-empty", None),
        ("cookie:sid", Some(b"one")),
        ("cookie:last", Some(b"\xff")),
        ("cookie:si", None),
        ("cookie:SID", None),
        ("query:user", Some(b"%41b")),
        ("query:x", Some(b"1")),
        ("query:flag", None),
        ("query:use", None),
        ("path", Some(b"/a/b%2Fc/d")),
        ("path_prefix:1", Some(b"/a")),
        ("path_prefix:2", Some(b"/a/b%2Fc")),
        ("path_prefix:16", Some(b"/a/b%2Fc/d")),
        ("address", Some(&[10, 0, 0, 9])),
        ("grpc:x-user", None),
    ] {
        let found = hash_of(&by(&format!("{source:?}")), target, fields);
        assert_eq!(found, value.map(expected), "{source}");
    }
    assert_eq!(hash_of(&by("\"query:x\""), "/", &[]), None, "no query");
    assert_eq!(hash_of(&by("\"path\""), "*", &[]), Some(expected(b"*")));
}

#[test]
fn the_host_of_an_http2_request_is_its_authority() {
    let rule = by("\"header:host\"");
    let host = Some(expected(b"a.example"));
    assert_eq!(hash_of(&rule, "http://a.example/", &[]), host);
    assert_eq!(hash_of(&rule, "/", &[("host", b"a.example")]), host);
    let other = by("\"header:x-host\"");
    assert_eq!(hash_of(&other, "http://a.example/", &[]), None);
}

#[test]
fn metadata_belongs_to_grpc_calls_only() {
    let rule = by("\"grpc:x-tenant\"");
    let call: &[(&str, &[u8])] = &[("content-type", b"application/grpc"), ("x-tenant", b"t")];
    assert_eq!(hash_of(&rule, "/s/m", call), Some(expected(b"t")));
    assert_eq!(hash_of(&rule, "/s/m", &call[1..]), None);
}

#[test]
fn first_source_that_is_present_decides() {
    let rule = by("[\"header:x-user\", \"cookie:sid\", \"address\"]");
    let all: &[(&str, &[u8])] = &[("x-user", b"u"), ("cookie", b"sid=s")];
    assert_eq!(hash_of(&rule, "/", all), Some(expected(b"u")));
    assert_eq!(hash_of(&rule, "/", &all[1..]), Some(expected(b"s")));
    let empty: &[(&str, &[u8])] = &[("x-user", b""), ("cookie", b"sid=")];
    assert_eq!(hash_of(&rule, "/", empty), Some(expected(&[10, 0, 0, 9])));
}

#[test]
fn long_values_count_up_to_a_bound() {
    let rule = by("\"header:x-user\"");
    let long = vec![b'a'; 1 << 20];
    let mut other = long.clone();
    other[KEY_BYTES_MAX] = b'b';
    let hash = |value: &[u8]| hash_of(&rule, "/", &[("x-user", value)]);
    assert_eq!(hash(&long), hash(&other));
    assert_eq!(hash(&long), hash(&long[..KEY_BYTES_MAX]));
    assert_ne!(hash(&long), hash(&long[..KEY_BYTES_MAX - 1]));
}

#[test]
fn hints_are_the_hash_or_a_header() {
    const SYNC: &str = "policy = \"prequal_sync\"\n";
    let origin = origin("10.0.0.9:1");
    let of = |rule: &KeyRule, fields: &[(&'static str, &[u8])]| {
        rule.of(&request("/", fields), &origin).hint
    };
    let keyed = rule(&format!(
        "{SYNC}probe.hint = \"key\"\nkey.by = \"header:x-user\""
    ));
    let keyed = keyed.expect("keys");
    let hash = KeyHasher::default().hash(b"u").to_bits();
    assert_eq!(of(&keyed, &[("x-user", b"u")]), hash.to_be_bytes()[..]);
    assert!(of(&keyed, &[]).is_empty());
    let named = rule(&format!("{SYNC}probe.hint = \"header:x-prompt\""));
    let named = named.expect("hints");
    assert_eq!(of(&named, &[("x-prompt", b"p")]), b"p"[..]);
    assert_eq!(of(&named, &[("x-prompt", &[b'p'; 256])]).len(), 256);
    assert!(
        of(&named, &[("x-prompt", &[b'p'; 257])]).is_empty(),
        "too long"
    );

    let mut headers = Fields::new();
    headers.insert(HINT, "forged");
    by("\"path\"").pass_on(None, &mut headers);
    assert!(headers.is_empty(), "a hint where hints are off");
    headers.insert(HINT, "forged");
    named.pass_on(None, &mut headers);
    assert!(headers.is_empty(), "a client's own hint");
    let key = RequestKey {
        hash: None,
        hint: Bytes::from_static(b"p"),
    };
    headers.insert(HINT, "forged");
    named.pass_on(Some(&key), &mut headers);
    assert_eq!(headers.get(HINT).expect("the hint"), "70");
    assert_eq!(headers.len(), 1);
}

#[test]
fn secret_seed_changes_all_keys() {
    let name = format!("slackwater-key-seed-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, "00112233445566778899aabbccddeeff").expect("written");
    let secret = rule(&format!("key.by = \"path\"\nkey.seed_file = {file:?}")).expect("keys");
    std::fs::remove_file(&file).expect("removed");
    assert_ne!(hash_of(&secret, "/", &[]), Some(expected(b"/")));
    assert!(hash_of(&secret, "/", &[]).is_some());
}
