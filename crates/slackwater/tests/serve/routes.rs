//! Several services behind one proxy: which requests reach which service, their form there, and
//! requests that are answered without a service.

use crate::clients::{self, Answer, Client, empty, get};
use crate::proxy::Proxy;
use crate::replicas::{self, Replica};
use core::net::SocketAddr;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;

/// Sections of services with one replica each, round robin and no probes.
pub(crate) fn services(named: &[(&str, SocketAddr)]) -> String {
    let sections = named.iter().map(|(name, address)| {
        format!(
            "[services.{name}]\npolicy = \"round_robin\"\nreplicas = [\"{address}\"]\n\
             probe.transport = \"none\"\n"
        )
    });
    sections.collect()
}

/// Sends a request and reads its answer.
pub(crate) async fn ask(proxy: &Proxy, request: &str) -> Answer {
    let mut client = Client::connect(proxy.address).await;
    client.send(request).await;
    client.answer().await
}

/// Sends `GET` for a target and a host.
async fn get_of(proxy: &Proxy, host: &str, target: &str) -> Answer {
    ask(
        proxy,
        &format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n"),
    )
    .await
}

/// The name with which an echoing replica begins its answers.
pub(crate) fn name_in(answer: &Answer) -> &str {
    answer.text().lines().next().unwrap_or_default()
}

#[tokio::test]
async fn requests_without_a_service_are_counted_by_answer() {
    let web = Replica::echo("web").await;
    let toml = services(&[("web", web.address)])
        + "[[routes]]\npath_prefix = \"/old\"\nredirect = { status = 308, to = \"https://{host}/new\" }\n\
           [[routes]]\npath_prefix = \"/closed\"\nrespond.status = 403\n\
           [[routes]]\npath_prefix = \"/web\"\nservice = \"web\"\nlimits.body_bytes_max = 1\n";
    let proxy = Proxy::of_file(&toml);
    let counted = async || {
        let status = proxy.status().await;
        let names = ["no_route", "redirected", "responded", "refused"];
        let counted = names.map(|name| status["unrouted_requests"][name].as_u64().unwrap());
        let latency = &status["services"][0]["latency"];
        (counted, latency[0]["class"].as_str().map(str::to_owned))
    };
    assert_eq!(counted().await, ([0; 4], None));
    for (path, more, status) in [
        ("/", "", 404),
        ("/", "", 404),
        ("/old", "", 308),
        ("/closed", "", 403),
        ("/closed", "expect: a-lot\r\n", 417),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{more}\r\n");
        assert_eq!(ask(&proxy, &request).await.status, status, "{path} {more}");
    }
    assert_eq!(counted().await, ([2, 1, 1, 1], None));
    // A request that is rejected on its way to a service counts for that service.
    let large = "POST /web HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nab";
    assert_eq!(ask(&proxy, large).await.status, 413);
    assert_eq!(counted().await, ([2, 1, 1, 1], Some("4xx".to_owned())));
}

#[tokio::test]
async fn first_route_that_matches_host_path_method_and_headers_decides() {
    let (web, api) = (Replica::echo("web").await, Replica::echo("api").await);
    let toml = services(&[("web", web.address), ("api", api.address)])
        + "[[routes]]\npath_prefix = \"/api\"\nmethod = [\"GET\", \"HEAD\"]\nservice = \"api\"\n\
           [[routes]]\nhost = [\"api.example\", \"*.api.example\"]\nservice = \"api\"\n\
           [[routes]]\nheaders = [{ name = \"x-api\", exact = \"1\" }]\nservice = \"api\"\n\
           [[routes]]\nhost = \"www.example\"\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&toml);
    for (request, expected) in [
        ("GET /api/x HTTP/1.1\r\nhost: www.example", "api"),
        ("GET /apix HTTP/1.1\r\nhost: www.example", "web"),
        ("DELETE /api HTTP/1.1\r\nhost: WWW.Example:80", "web"),
        ("GET / HTTP/1.1\r\nhost: a.API.example.", "api"),
        (
            "GET http://api.example/ HTTP/1.1\r\nhost: www.example",
            "api",
        ),
        ("GET / HTTP/1.1\r\nhost: www.example\r\nX-Api: 1", "api"),
        ("GET / HTTP/1.1\r\nhost: www.example\r\nX-Api: 2", "web"),
    ] {
        let answer = ask(&proxy, &format!("{request}\r\n\r\n")).await;
        assert_eq!(name_in(&answer), expected, "{request}");
    }
    let unknown = get_of(&proxy, "other.example", "/").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.field("x-slackwater-error"), Some("no_route"));
    proxy.settled().await;
    let status = proxy.status().await;
    let sent: Vec<_> = (status["replicas"].as_array().unwrap().iter())
        .map(|it| {
            (
                it["service"].as_str().unwrap(),
                it["requests"]["sent"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(sent, [("web", 3), ("api", 4)]);
}

#[tokio::test]
async fn http2_requests_are_routed_by_the_same_rules() {
    let web = Replica::echo("web").await;
    let api = replicas::http2(|request| async move {
        Response::new(clients::full(format!("api\n{}", request.uri())))
    })
    .await;
    let toml = services(&[("web", web.address), ("api", api)])
        + "replica.protocol = \"h2c\"\n\
           [[routes]]\nhost = \"api.example\"\npath_prefix = \"/v1\"\nservice = \"api\"\n\
           rewrite = { host = \"inner.example\", path_prefix = \"/\" }\n\
           [[routes]]\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&toml);
    let mut client = clients::http2(proxy.address).await;
    for (target, expected) in [
        ("http://api.example/v1/x?q", "api\nhttp://inner.example/x?q"),
        ("http://api.example/v2", "web\nGET /v2 HTTP/1.1\r\n"),
    ] {
        let request = Request::get(target).body(empty()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(
            body.starts_with(expected.as_bytes()),
            "{target}: {}",
            String::from_utf8_lossy(&body)
        );
    }
}

#[tokio::test]
async fn ambiguous_path_is_refused_only_if_its_readings_match_two_routes() {
    let (web, api) = (Replica::echo("web").await, Replica::echo("api").await);
    let toml = services(&[("web", web.address), ("api", api.address)])
        + "[[routes]]\npath_prefix = \"/admin\"\nrespond.status = 403\n\
           [[routes]]\npath_prefix = \"/api\"\nservice = \"api\"\n\
           [[routes]]\nhost = \"free.example\"\nservice = \"web\"\n\
           [[routes]]\npath_prefix = \"/\"\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&toml);
    for target in [
        "/api/../admin",
        "/api/%2e%2e/admin",
        "/api%2F..%2fadmin",
        "/%61dmin",
        "//admin/x",
        "/admin;x/y",
        "/admin%2Fx",
        "/admin%5Cx",
    ] {
        let answer = get_of(&proxy, "www.example", target).await;
        assert_eq!(answer.status, 400, "{target}");
    }
    for (target, expected) in [
        ("/api/group%2Fproject", "api"),
        ("/api/a//b;c=d", "api"),
        ("/files/100%25", "web"),
        ("/files/%2Fadmin", "web"),
        ("/.well-known/x", "web"),
    ] {
        let answer = get_of(&proxy, "www.example", target).await;
        assert_eq!(name_in(&answer), expected, "{target}");
        assert!(
            answer.text().contains(&format!("GET {target} ")),
            "as it was sent"
        );
    }
    assert_eq!(get_of(&proxy, "www.example", "/admin/x").await.status, 403);
}

#[tokio::test]
async fn without_routes_paths_are_forwarded_unchanged() {
    let web = Replica::echo("web").await;
    let proxy = Proxy::start(&[web.address], "");
    for target in ["/a/../b", "/%2e%2e/x", "//x", "/a%2Fb"] {
        let answer = get(proxy.address, target).await;
        assert_eq!(answer.status, 200, "{target}");
        assert!(answer.text().contains(&format!("GET {target} ")));
    }
}

#[tokio::test]
async fn requests_are_split_by_weight_and_weight_0_gets_none() {
    let (web, canary, off) = (
        Replica::echo("web").await,
        Replica::echo("canary").await,
        Replica::echo("off").await,
    );
    let named = [
        ("web", web.address),
        ("canary", canary.address),
        ("off", off.address),
    ];
    let toml = services(&named)
        + "[[routes]]\nservices = [{ name = \"off\", weight = 0 }, { name = \"web\", weight = 3 }, \
           { name = \"canary\", weight = 1 }]\n";
    let proxy = Proxy::of_file(&toml);
    let mut client = Client::connect(proxy.address).await;
    let mut counts = [0_u32; 3];
    for _ in 0..400 {
        let answer = client.get("/").await;
        let at = ["web", "canary", "off"]
            .iter()
            .position(|name| *name == name_in(&answer));
        counts[at.unwrap()] += 1;
    }
    // In 400 draws with a probability of 1 in 4, fewer than 40 or more than 160 occur less than
    // once in 10^9 runs.
    assert!((40..=160).contains(&counts[1]), "{counts:?}");
    assert_eq!(counts[2], 0);
}

#[tokio::test]
async fn header_rules_change_both_directions_and_clients_cannot_evade() {
    let replica = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            let head = head.replace("\r\n", "\n");
            connection
                .send(&format!(
                    "HTTP/1.1 200 OK\r\nserver: secret\r\nvary: a\r\nx-old: 1\r\ncontent-length: {}\r\n\r\n{head}",
                    head.len()
                ))
                .await;
        }
    })
    .await;
    let toml = services(&[("web", replica.address)])
        + "[[routes]]\npath_prefix = \"/v1\"\nservice = \"web\"\n\
           rewrite = { host = \"inner.example:81\", path_prefix = \"/api\" }\n\
           request_headers = { remove = \"x-debug\", set = { X-Verified = \"yes\" }, add = { x-tag = \"b\" } }\n\
           response_headers = { remove = \"server\", set = { x-old = \"2\" }, add = { vary = \"b\" } }\n\
           [[routes]]\npath = \"/health\"\nservice = \"web\"\nrewrite.path = \"/healthz\"\n";
    let proxy = Proxy::of_file(&toml);
    let answer = ask(
        &proxy,
        "GET /v1/x?q=1 HTTP/1.1\r\nhost: outer.example\r\nx-debug: 1\r\nx-verified: no\r\nx-tag: a\r\n\
         connection: x-verified\r\n\r\n",
    )
    .await;
    let seen = answer.text();
    assert!(seen.starts_with("GET /api/x?q=1 HTTP/1.1\n"), "{seen}");
    for line in [
        "host: inner.example:81",
        "x-verified: yes",
        "x-tag: a",
        "x-tag: b",
    ] {
        assert!(seen.contains(&format!("{line}\n")), "{line}: {seen}");
    }
    assert!(
        !seen.contains("x-debug") && !seen.contains("x-verified: no"),
        "{seen}"
    );
    assert_eq!(answer.field("server"), None);
    assert_eq!(answer.field("x-old"), Some("2"));
    let vary: Vec<_> = answer
        .head
        .lines()
        .filter(|line| line.starts_with("vary"))
        .collect();
    assert_eq!(vary, ["vary: a", "vary: b"]);
    let health = get_of(&proxy, "outer.example", "/health?deep").await;
    assert!(health.text().starts_with("GET /healthz?deep HTTP/1.1\n"));
}

#[tokio::test]
async fn redirects_and_fixed_answers_need_no_replica() {
    let web = Replica::echo("web").await;
    let toml = services(&[("web", web.address)])
        + "[[routes]]\nhost = \"old.example\"\n\
           redirect = { status = 308, to = \"https://www.{host}{path}{query}\" }\n\
           [[routes]]\npath_prefix = \"/old\"\nredirect.to = \"/new{rest}\"\n\
           [[routes]]\npath = \"/robots.txt\"\n\
           respond = { status = 200, body = \"User-agent: *\\n\" }\nresponse_headers.set = { cache-control = \"max-age=60\" }\n\
           [[routes]]\npath = \"/gone\"\nrespond.status = 410\n\
           [[routes]]\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&toml);
    let moved = get_of(&proxy, "old.example:8080", "/a/b?c=d").await;
    assert_eq!(moved.status, 308);
    assert_eq!(
        moved.field("location"),
        Some("https://www.old.example/a/b?c=d")
    );
    let below = get_of(&proxy, "www.example", "/old/x?q").await;
    assert_eq!(
        (below.status, below.field("location")),
        (307, Some("/new/x"))
    );
    let own = get_of(&proxy, "www.example", "/old").await;
    assert_eq!(own.field("location"), Some("/new"));
    let robots = get_of(&proxy, "www.example", "/robots.txt").await;
    assert_eq!((robots.status, robots.text()), (200, "User-agent: *\n"));
    assert_eq!(
        robots.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(robots.field("cache-control"), Some("max-age=60"));
    let gone = get_of(&proxy, "www.example", "/gone").await;
    assert_eq!(
        (gone.status, gone.text(), gone.field("content-type")),
        (410, "", None)
    );
    // A malformed request for a fixed answer is rejected like one for a replica.
    let odd = ask(&proxy, "GET /gone HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n").await;
    assert_eq!(odd.status, 400);
    assert_eq!(web.connections(), 0);
}

#[tokio::test]
async fn a_redirect_keeps_the_scheme_from_a_trusted_proxy() {
    const PROTO: &str = "x-forwarded-proto: https";
    const BOTH: &str = "x-forwarded-proto: http, HTTPS\r\nforwarded: proto=http";
    const FORWARDED: &str =
        "forwarded: for=192.0.2.7;proto=http, for=\"[2001:db8::7]\";Proto=\"https\"";
    let web = Replica::echo("web").await;
    for (forwarded, told, expected) in [
        ("trust = []", PROTO, "http"),
        ("trust = [\"127.0.0.1\"]", "x-a: b", "http"),
        ("trust = [\"127.0.0.1\"]", PROTO, "https"),
        ("trust = [\"127.0.0.1\"]", BOTH, "https"),
        (
            "trust = [\"127.0.0.1\"]",
            "x-forwarded-proto: gopher",
            "http",
        ),
        ("trust = [\"127.0.0.1\"]", FORWARDED, "http"),
        (
            "trust = [\"127.0.0.1\"]\nread = \"forwarded\"",
            PROTO,
            "http",
        ),
        (
            "trust = [\"127.0.0.1\"]\nread = \"forwarded\"",
            FORWARDED,
            "https",
        ),
    ] {
        let toml = services(&[("web", web.address)])
            + "[[routes]]\nredirect.to = \"{scheme}://other.example{path}\"\n[forwarded]\n"
            + forwarded;
        let proxy = Proxy::of_file(&toml);
        let head = format!("GET /a HTTP/1.1\r\nhost: x\r\n{told}\r\n\r\n");
        let moved = ask(&proxy, &head).await;
        let location = format!("{expected}://other.example/a");
        assert_eq!(
            moved.field("location"),
            Some(location.as_str()),
            "{forwarded} {told}"
        );
    }
}

#[tokio::test]
async fn routes_may_be_limited_to_a_listener() {
    let (web, api) = (Replica::echo("web").await, Replica::echo("api").await);
    let toml = "[[listeners]]\nname = \"public\"\naddress = \"127.0.0.1:0\"\n\
                [[listeners]]\nname = \"inner\"\naddress = \"127.0.0.2:0\"\n"
        .to_owned()
        + &services(&[("web", web.address), ("api", api.address)])
        + "[[routes]]\nlisteners = \"inner\"\nservice = \"api\"\n\
           [[routes]]\nlisteners = [\"public\"]\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&toml);
    let inner = proxy.next_address();
    assert_eq!(name_in(&get(proxy.address, "/").await), "web");
    assert_eq!(name_in(&get(inner, "/").await), "api");
}

#[tokio::test]
async fn each_service_has_its_own_protocol_and_timeouts() {
    let web = Replica::echo("web").await;
    let stuck =
        Replica::scripted(
            |mut connection| async move { while connection.head().await.is_some() {} },
        )
        .await;
    let rpc = replicas::http2(|_| async {
        let mut response = Response::new(clients::full("rpc"));
        let value = HeaderValue::from_static("h2");
        response.headers_mut().insert("x-spoken", value);
        response
    })
    .await;
    let toml = services(&[("web", web.address), ("stuck", stuck.address)])
        + "timeouts.first_byte = \"50ms\"\n"
        + &services(&[("rpc", rpc)])
        + "replica.protocol = \"h2c\"\n\
           [[routes]]\npath = \"/stuck\"\nservice = \"stuck\"\n\
           [[routes]]\npath = \"/rpc\"\nservice = \"rpc\"\n\
           [[routes]]\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&toml);
    let late = get(proxy.address, "/stuck").await;
    assert_eq!(late.status, 504);
    let spoken = get(proxy.address, "/rpc").await;
    assert_eq!(
        (spoken.field("x-spoken"), spoken.text()),
        (Some("h2"), "rpc")
    );
    assert_eq!(name_in(&get(proxy.address, "/").await), "web");
}
