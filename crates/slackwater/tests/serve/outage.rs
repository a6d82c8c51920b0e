//! Replicas that do not respond, with the defaults: what is reported about them, where, and for how
//! long.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{Replica, unused_address, vacant};
use crate::routes::services;
use serde_json::Value;

/// Sends requests until `is_so` accepts the status.
async fn requests_until(proxy: &Proxy, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    until(what, async || {
        get(proxy.address, "/").await;
        Some(proxy.status().await).filter(|told| is_so(told))
    })
    .await
}

fn all_fail(told: &Value) -> bool {
    told["services"][0]["standing"]["all_fail"] == true
}

#[tokio::test]
async fn an_outage_and_its_end_are_reported_everywhere() {
    let address = vacant([127, 92, 0, 1]).await;
    let proxy = Proxy::start(&[address], "");
    let told = requests_until(&proxy, "all replicas fail", all_fail).await;
    let replica = &told["replicas"][0];
    assert_eq!(replica["state"], "down");
    assert_eq!(replica["why"], "connection refused");
    assert!(
        replica["failure"]["in_a_row"].as_u64() >= Some(3),
        "{replica}"
    );
    let problem = &told["problems"][0];
    assert_eq!(problem["kind"], "all_replicas_failing");
    assert_eq!(problem["what"], "all 1 replica fail: connection refused");
    assert_eq!(problem["severe"], true);
    let line = proxy.log_line("all replicas fail: connection refused");
    assert!(
        line.contains(" WARN ") && line.contains("remedy="),
        "{line}"
    );
    let line = proxy.log_line("replica down: connection refused");
    assert!(line.contains(&format!("address=\"{address}\"")), "{line}");
    let metrics = proxy.admin_page("/metrics").await;
    assert!(metrics.contains("slackwater_service_failing{service=\"default\"} 1\n"));
    // The decision is kept although no request required it.
    let decisions = proxy.admin_page("/decisions?failed=true&format=text").await;
    assert!(decisions.contains("no_connection"), "{decisions}");

    let _replica = Replica::echo_at(&address.to_string(), "back").await;
    let told = requests_until(&proxy, "the end", |told| !all_fail(told)).await;
    assert_ne!(told["replicas"][0]["state"], "down");
    assert_eq!(told["replicas"][0]["failure"], Value::Null);
    let line = proxy.log_line("replicas respond again");
    assert!(line.contains(" INFO ") && line.contains("after="), "{line}");
}

#[tokio::test]
async fn readiness_ignores_services_unless_requested() {
    let well = Replica::echo("well").await;
    let dead = unused_address().await;
    let routes =
        "[[routes]]\npath_prefix = \"/api\"\nservice = \"api\"\n[[routes]]\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&(services(&[("web", well.address), ("api", dead)]) + routes));
    let problem = "problem: api: all 1 replica fail: connection refused\n";
    until("the body says so", async || {
        get(proxy.address, "/api").await;
        let page = get(proxy.admin, "/readyz").await;
        assert_eq!(page.status, 200);
        page.text().contains(problem).then_some(())
    })
    .await;
    for (query, expected) in [
        ("services=any", 200),
        ("services=all", 503),
        ("service=web", 200),
        ("service=api", 503),
        ("service=shop", 404),
        ("services=some", 400),
    ] {
        let answer = get(proxy.admin, &format!("/readyz?{query}")).await;
        assert_eq!(answer.status, expected, "{query}: {}", answer.text());
    }
}

#[tokio::test]
async fn many_simultaneous_failures_are_logged_in_few_lines() {
    let mut dead = Vec::new();
    for host in 0..40 {
        dead.push(vacant([127, 92, 1, host]).await);
    }
    let proxy = Proxy::start(
        &dead,
        "policy = \"round_robin\"\nretries.attempts_max = 1\n",
    );
    let mut client = Client::connect(proxy.address).await;
    let began = std::time::Instant::now();
    // Each is tried once, so each has a first failure and none is down.
    for _ in 0..dead.len() {
        assert_eq!(client.get("/").await.status, 502);
    }
    let (mut lines, mut all) = (0, 0);
    while all < dead.len() {
        let line = proxy.log_line(" no response");
        if let Some((_, more)) = line.split_once(" more=") {
            let more: usize = more.trim().parse().unwrap();
            all += more;
        } else {
            (lines, all) = (lines + 1, all + 1);
        }
    }
    assert_eq!(all, dead.len());
    // At most ten lines for each poll, and one poll per second.
    let looks = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    assert!(
        (10..=10 * looks).contains(&lines),
        "{lines} in {looks} looks"
    );
}
