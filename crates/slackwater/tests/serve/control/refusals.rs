//! Unauthorized and mistaken changes: nothing is changed, and the answer states why.

use super::{TOKEN, ask, bearer, controlled, done, overrides, send};
use crate::clients::Client;
use crate::proxy::until;
use crate::reload::{Written, config, reload};
use crate::replicas::Replica;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Notify;

const CHANGES: [&str; 4] = ["/replica", "/settings", "/reload", "/overrides/clear"];

#[tokio::test]
async fn without_a_token_file_every_change_is_refused() {
    let one = Replica::echo("one").await;
    let written = Written::new("no-token", &config(&[&one], ""));
    let proxy = written.serve(&[]);
    for request in CHANGES.map(|path| format!("POST {path}")) {
        let (status, why) = send(&proxy, &request, &bearer(TOKEN), "{}").await;
        assert_eq!(status, 403, "{request}");
        assert!(
            why.contains("set admin.token_file to a file with a token"),
            "{why}"
        );
    }
    assert_eq!(send(&proxy, "GET /config", "", "").await.0, 403);
    assert_eq!(
        overrides(&proxy).await,
        json!({"settings": [], "replicas": [], "control_plane": [], "control_plane_refused": []})
    );
    let shown = proxy.status().await;
    assert_eq!(shown["overrides"]["allowed"], false);
}

#[tokio::test]
async fn changes_without_the_token_are_refused_counted_and_logged() {
    let one = Replica::echo("one").await;
    let (proxy, _written, _token) = controlled("refused", &[&one]);
    let wrong = [
        String::new(),
        "content-type: application/json\r\n".to_owned(),
        bearer("5f0c6b1e9d2a48c8"),
        bearer(&TOKEN[1..]),
        bearer(""),
        bearer(TOKEN).replace("Bearer", "Basic"),
        bearer(TOKEN) + "authorization: Bearer 5f0c6b1e9d2a48c8\r\n",
        bearer(TOKEN).replace("Bearer ", "Bearer"),
    ];
    let mut refused = 0;
    for headers in &wrong {
        for request in CHANGES.map(|path| format!("POST {path}")) {
            let (status, why) = send(&proxy, &request, headers, "{}").await;
            assert_eq!(status, 401, "{request} {headers}");
            assert!(why.contains("authorization: Bearer TOKEN"), "{why}");
            refused += 1;
        }
        assert_eq!(send(&proxy, "GET /config", headers, "").await.0, 401);
        refused += 1;
    }
    let elsewhere = bearer(TOKEN) + "origin: http://elsewhere:9900\r\n";
    assert_eq!(send(&proxy, "POST /reload", &elsewhere, "").await.0, 403);
    assert_eq!(
        send(
            &proxy,
            "POST /reload",
            &(bearer(TOKEN) + "origin: null\r\n"),
            ""
        )
        .await
        .0,
        403
    );
    refused += 2;
    let line = proxy.log_line("missing or wrong token");
    assert!(
        line.contains("peer=127.0.0.1:") && line.contains("requests=1"),
        "{line}"
    );
    let shown = proxy.status().await;
    assert_eq!(shown["overrides"]["refused"], refused);
    assert_eq!(shown["overrides"]["allowed"], true);
    assert!(!shown.to_string().contains(TOKEN));
    assert_eq!(shown["reloads"]["taken"], 0);
    let here = bearer(TOKEN)
        .to_uppercase()
        .replace(&TOKEN.to_uppercase(), TOKEN)
        + "origin: http://admin:9900\r\n";
    assert_eq!(
        send(&proxy, "POST /reload", &here, "").await.0,
        200,
        "a page from here"
    );
}

#[tokio::test]
async fn changed_token_takes_effect_at_a_reload() {
    let one = Replica::echo("one").await;
    let (proxy, _written, token) = controlled("rotated", &[&one]);
    done(&proxy, "/reload", &json!({})).await;
    token.become_text("another-token-0123");
    assert_eq!(
        ask(&proxy, "/reload", &json!({})).await.0,
        200,
        "the old one still counts"
    );
    assert_eq!(ask(&proxy, "/reload", &json!({})).await.0, 401);
    let (status, _) = send(&proxy, "POST /reload", &bearer("another-token-0123"), "{}").await;
    assert_eq!(status, 200);
    token.become_text("short");
    reload(&proxy);
    let (status, why) = send(&proxy, "POST /reload", &bearer("another-token-0123"), "{}").await;
    assert_eq!(status, 422, "the one before still counts: {why}");
    assert!(
        why.contains("does not hold a token") && !why.contains("short"),
        "{why}"
    );
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one mistake after the other")]
async fn invalid_change_is_reported_and_changes_nothing() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let (proxy, _written, _token) = controlled("odd", &[&one, &two]);
    let replica = one.address.to_string();
    for (path, body, status, expected) in [
        (
            "/replica",
            json!({"drained": true}),
            422,
            "body: missing field `replica`",
        ),
        (
            "/replica",
            json!({"replica": replica, "drain": true}),
            422,
            "body: unknown field `drain`",
        ),
        (
            "/replica",
            json!({"replica": replica, "weight": 65536}),
            422,
            "body: invalid value: integer `65536`",
        ),
        (
            "/replica",
            json!({"replica": "three"}),
            404,
            "service default has no replica \"three\", expected one of 127.0.0.1:",
        ),
        (
            "/replica",
            json!({"service": "web", "replica": replica}),
            404,
            "there is no service \"web\", expected one of default",
        ),
        ("/settings", json!({}), 422, "body: missing field `set`"),
        (
            "/settings",
            json!({"set": {"policy": "prequel"}}),
            422,
            "override: policy: found \"prequel\", did you mean \"prequal\"? expected",
        ),
        (
            "/settings",
            json!({"set": {"policy": "random", "hedge.enabled": 3}}),
            422,
            "override: hedge.enabled: found 3, expected true or false",
        ),
        (
            "/settings",
            json!({"set": {"listen": "0.0.0.0:80"}}),
            422,
            "listen: is no setting of a service",
        ),
        (
            "/settings",
            json!({"set": {"replicas": ["1.2.3.4:5"]}}),
            422,
            "replicas: determines the fleet",
        ),
        (
            "/settings",
            json!({"set": {"probe.key_file": "/etc/passwd"}}),
            422,
            "probe.key_file: names files",
        ),
        (
            "/settings",
            json!({"service": "web", "set": {}}),
            404,
            "there is no service \"web\"",
        ),
        (
            "/overrides/clear",
            json!({"service": "web"}),
            404,
            "there is no service \"web\"",
        ),
        (
            "/reload",
            json!({"dryrun": true}),
            422,
            "body: unknown field `dryrun`",
        ),
        (
            "/reload?dry_run=true",
            json!({}),
            400,
            "unknown parameter dry_run",
        ),
    ] {
        let (found, why) = ask(&proxy, path, &body).await;
        assert_eq!(found, status, "{path} {body}: {why}");
        assert!(why.starts_with(expected), "{path} {body}: {why}");
    }
    for (headers, body, status) in [
        (bearer(TOKEN), "{", 400),
        (bearer(TOKEN), "", 400),
        (
            bearer(TOKEN).replace("application/json", "text/plain"),
            "{}",
            415,
        ),
        (format!("authorization: Bearer {TOKEN}\r\n"), "{}", 415),
        (bearer(TOKEN), &*" ".repeat(65 << 10), 413),
    ] {
        let (found, why) = send(&proxy, "POST /settings", &headers, body).await;
        assert_eq!(found, status, "{headers}: {why}");
    }
    assert_eq!(
        send(&proxy, "GET /replica", &bearer(TOKEN), "").await.0,
        405
    );
    let shown = proxy.status().await;
    assert_eq!(
        overrides(&proxy).await,
        json!({"settings": [], "replicas": [], "control_plane": [], "control_plane_refused": []})
    );
    assert_eq!(shown["services"][0]["policy"], "round_robin");
    assert_eq!(shown["reloads"]["taken"], 0);
}

#[tokio::test]
async fn a_process_that_stops_rejects_changes() {
    let go_on = Arc::new(Notify::new());
    let one = Replica::slow(&go_on, "one").await;
    let (mut proxy, _written, _token) = controlled("stopping", &[&one]);
    let mut held = Client::connect(proxy.address).await;
    held.send("GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await;
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    proxy.signal("TERM");
    proxy.log_line("shutting down");
    let change = json!({"replica": one.address.to_string(), "drained": true});
    let (refused, why) = ask(&proxy, "/replica", &change).await;
    assert_eq!(refused, 503, "{why}");
    assert!(why.contains("the process is stopping"), "{why}");
    go_on.notify_one();
    assert_eq!(held.answer().await.status, 200);
    assert_eq!(proxy.ended().await.code(), Some(0));
}
