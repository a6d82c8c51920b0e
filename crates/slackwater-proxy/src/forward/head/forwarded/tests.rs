//! Tests of which proxies are trusted, and which fields are sent.

use super::*;
use crate::forward::head::Rules;
use http::uri::Authority;
use slackwater_config::{ForwardedSettings, Limits};

/// Makes a connection from an address, with these settings in TOML.
fn origin(peer: &str, settings: &str) -> Origin {
    let settings = ForwardedSettings::of_toml(settings);
    let rules = Rules::new(&settings, &Limits::default());
    let peer: IpAddr = peer.parse().expect("an address");
    Origin::new(
        &rules,
        (peer, 50_000).into(),
        Authority::from_static("local:80"),
        0,
    )
}

fn request(fields: &[(&'static str, &'static str)]) -> Request<()> {
    let mut builder = http::Request::builder()
        .uri("/")
        .header("host", "shop.example:81");
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder.body(()).expect("a request").into()
}

/// Returns the origin fields of a request after it was rewritten, by name.
fn told(origin: &Origin, fields: &[(&'static str, &'static str)]) -> Vec<String> {
    let mut request = request(fields);
    let has_any = request.headers().keys().any(is_origin_field);
    rewrite(&mut request, origin, has_any);
    let fields = request
        .headers()
        .iter()
        .filter(|(name, _)| is_origin_field(name));
    let mut told: Vec<_> = fields
        .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.to_str().expect("text")))
        .collect();
    told.sort();
    told
}

const SPOOFED: [(&str, &str); 9] = [
    ("x-forwarded-for", "203.0.113.1"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "evil.example"),
    ("x-forwarded-anything", "1"),
    ("x-real-ip", "203.0.113.1"),
    ("forwarded", "for=203.0.113.1"),
    // CGI and others read `_` as `-`.
    ("x_forwarded_for", "203.0.113.9"),
    ("x-forwarded_proto", "https"),
    ("x_real_ip", "203.0.113.9"),
];

#[test]
fn fields_of_untrusted_peers_are_ignored() {
    let stranger = origin("192.0.2.7", "trust = [\"10.0.0.0/8\"]");
    assert_eq!(
        told(&stranger, &SPOOFED),
        ["x-forwarded-for: 192.0.2.7", "x-forwarded-proto: http"]
    );
    assert_eq!(stranger.client(request(&SPOOFED).headers()), stranger.peer);
}

#[test]
fn fields_of_trusted_proxies_are_used() {
    let settings = "trust = [\"10.0.0.0/8\"]";
    let proxy = origin("10.0.0.1", settings);
    assert_eq!(
        told(&proxy, &SPOOFED),
        [
            "x-forwarded-anything: 1",
            "x-forwarded-for: 203.0.113.1, 10.0.0.1",
            "x-forwarded-host: evil.example",
            "x-forwarded-proto: https",
            "x-real-ip: 203.0.113.1",
        ]
    );
    let other = origin("10.0.0.1", &format!("{settings}\nread = \"forwarded\""));
    assert_eq!(
        told(&other, &SPOOFED),
        [
            "forwarded: for=203.0.113.1",
            "x-forwarded-for: 203.0.113.1, 10.0.0.1",
            "x-forwarded-proto: http",
        ]
    );
}

#[test]
fn what_trusted_proxies_state_in_one_form_is_sent_in_the_other() {
    let of = |read: &str, send: &str| {
        let settings = format!("trust = [\"10.0.0.0/8\"]\nread = \"{read}\"\nsend = \"{send}\"");
        origin("10.0.0.1", &settings)
    };
    let told_by = [("forwarded", "for=203.0.113.1;proto=https, for=10.0.0.2")];
    assert_eq!(
        told(&of("forwarded", "x_forwarded"), &told_by)[1..],
        [
            "x-forwarded-for: 203.0.113.1, 10.0.0.1",
            "x-forwarded-proto: http",
        ],
        "the scheme is that of the nearest"
    );
    let told_by = [
        ("x-forwarded-for", "2001:db8::1"),
        ("x-forwarded-proto", "https"),
    ];
    assert_eq!(
        told(&of("x_forwarded", "forwarded"), &told_by)[0],
        "forwarded: for=\"[2001:db8::1]\";proto=https, \
         for=10.0.0.1;host=\"shop.example:81\";proto=http"
    );
    let told_by = [("forwarded", "for=203.0.113.1;proto=https")];
    let stranger = origin("192.0.2.7", "read = \"forwarded\"");
    assert_eq!(
        told(&stranger, &told_by),
        ["x-forwarded-for: 192.0.2.7", "x-forwarded-proto: http"]
    );
}

#[test]
fn sent_fields_are_configurable() {
    for (send, expected) in [
        ("none", &[][..]),
        (
            "forwarded",
            &["forwarded: for=192.0.2.7;host=\"shop.example:81\";proto=http"],
        ),
        (
            "both",
            &[
                "forwarded: for=192.0.2.7;host=\"shop.example:81\";proto=http",
                "x-forwarded-for: 192.0.2.7",
                "x-forwarded-proto: http",
            ],
        ),
    ] {
        let stranger = origin("192.0.2.7", &format!("send = \"{send}\""));
        assert_eq!(told(&stranger, &SPOOFED), expected, "{send}");
    }
}

#[test]
fn forwarded_chain_is_one_field_with_the_proxy_entry_last() {
    let proxy = origin(
        "10.0.0.1",
        "trust = [\"10.0.0.1\"]\nread = \"both\"\nsend = \"both\"",
    );
    let chain = [
        ("x-forwarded-for", "203.0.113.1, 203.0.113.2"),
        ("x-forwarded-for", "203.0.113.3"),
        ("forwarded", "for=_a"),
        ("forwarded", "for=_b"),
    ];
    assert_eq!(
        told(&proxy, &chain)[..2],
        [
            "forwarded: for=_a, for=_b, for=10.0.0.1;host=\"shop.example:81\";proto=http",
            "x-forwarded-for: 203.0.113.1, 203.0.113.2, 203.0.113.3, 10.0.0.1",
        ]
    );
}

#[test]
fn forwarded_scheme_of_a_tls_connection_is_https() {
    let mut stranger = origin("2001:db8::1", "send = \"both\"");
    stranger.is_tls = true;
    let mut request = Request::new(());
    *request.uri_mut() = "http://plain/".parse().expect("a target");
    rewrite(&mut request, &stranger, false);
    let field = |name| {
        request
            .headers()
            .get(name)
            .expect("a field")
            .to_str()
            .expect("text")
    };
    assert_eq!(field("x-forwarded-proto"), "https");
    assert_eq!(
        field("forwarded"),
        "for=\"[2001:db8::1]\";host=plain;proto=https"
    );
}

#[test]
fn the_client_is_the_last_address_that_is_not_a_trusted_proxy() {
    let proxy = origin("10.0.0.1", "trust = [\"10.0.0.0/8\"]");
    let client_of = |value| {
        let request = request(&[("x-forwarded-for", value)]);
        proxy.client(request.headers()).to_string()
    };
    for (value, expected) in [
        ("192.0.2.7", "192.0.2.7"),
        ("203.0.113.9, 192.0.2.7", "192.0.2.7"),
        ("203.0.113.9, 192.0.2.7, 10.0.0.2", "192.0.2.7"),
        ("192.0.2.7:443 ,10.0.0.2:80", "192.0.2.7"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("192.0.2.7, unknown, 10.0.0.2", "10.0.0.2"),
        ("192.0.2.7, , 10.0.0.2", "10.0.0.2"),
        ("garbage", "10.0.0.1"),
        ("", "10.0.0.1"),
    ] {
        assert_eq!(client_of(value), expected, "{value:?}");
    }
}

#[test]
fn the_client_in_forwarded_is_found_between_quotes_and_other_pairs() {
    let proxy = origin("10.0.0.1", "trust = [\"10.0.0.0/8\"]\nread = \"forwarded\"");
    let client_of = |value| {
        let request = request(&[("forwarded", value), ("x-forwarded-for", "203.0.113.1")]);
        proxy.client(request.headers()).to_string()
    };
    for (value, expected) in [
        ("for=192.0.2.7", "192.0.2.7"),
        ("proto=https;For=\"192.0.2.7:443\";by=_x", "192.0.2.7"),
        (
            "for=203.0.113.1, for=\"[2001:db8::1]:80\"; proto=http",
            "2001:db8::1",
        ),
        ("for=192.0.2.7, for=10.0.0.2", "192.0.2.7"),
        ("for=192.0.2.7;host=\"a, for=10.0.0.9\"", "192.0.2.7"),
        ("for=192.0.2.7;host=\"a\\\", for=10.0.0.9\"", "192.0.2.7"),
        ("for=192.0.2.7, for=unknown", "10.0.0.1"),
        ("for=192.0.2.7, proto=http", "10.0.0.1"),
    ] {
        assert_eq!(client_of(value), expected, "{value}");
    }
}

#[test]
fn an_open_quote_of_the_client_hides_nothing_that_proxies_append() {
    let proxy = origin("10.0.0.1", "trust = [\"10.0.0.0/8\"]\nread = \"forwarded\"");
    for forged in [
        "for=203.0.113.1;proto=https;x=\"",
        "for=203.0.113.1;proto=https;x=\"\\",
        "for=203.0.113.1;proto=https;x=\"a\"b\"",
    ] {
        for appended in [
            "for=192.0.2.7",
            "for=\"192.0.2.7\";by=_x",
            "for=192.0.2.7;by=\"a\\\"b\"",
        ] {
            let mut joined = request(&[]);
            let value = HeaderValue::try_from([forged, appended].join(", ")).expect("a value");
            joined.headers_mut().insert(header::FORWARDED, value);
            let client = proxy.client(joined.headers());
            assert_eq!(client.to_string(), "10.0.0.1", "{forged}, {appended}");
            assert_eq!(scheme(joined.headers(), &proxy), "http", "{forged}");
            rewrite(&mut joined, &proxy, true);
            let sent = joined.headers().get(header::FORWARDED);
            assert!(sent.is_none(), "{sent:?}");
        }
        let apart = request(&[("forwarded", forged), ("forwarded", "for=192.0.2.7")]);
        let client = proxy.client(apart.headers());
        assert_eq!(client.to_string(), "192.0.2.7", "{forged}");
    }
}

#[test]
fn a_replaced_host_is_forwarded_once() {
    let stranger = origin("192.0.2.7", "");
    let mut changed = request(&[]);
    stranger.keep_host(&mut changed);
    assert_eq!(
        changed.headers().get("x-forwarded-host").expect("a host"),
        "shop.example:81"
    );
    let mut over_http2 = Request::new(());
    *over_http2.uri_mut() = "http://shop.example/".parse().expect("a target");
    stranger.keep_host(&mut over_http2);
    assert_eq!(
        over_http2
            .headers()
            .get("x-forwarded-host")
            .expect("a host"),
        "shop.example"
    );

    let mut told = request(&[("x-forwarded-host", "outer.example")]);
    stranger.keep_host(&mut told);
    let values: Vec<_> = told.headers().get_all("x-forwarded-host").collect();
    assert_eq!(values, ["outer.example"]);

    for send in ["none", "forwarded"] {
        let silent = origin("192.0.2.7", &format!("send = \"{send}\""));
        let mut untold = request(&[]);
        silent.keep_host(&mut untold);
        assert!(!untold.headers().contains_key("x-forwarded-host"), "{send}");
    }
}
