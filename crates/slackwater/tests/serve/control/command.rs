//! Changes from a shell: `slackwater admin`.

use super::{TOKEN, Token, controlled, overrides};
use crate::clients::{Client, get};
use crate::proxy::{Proxy, slackwater, until};
use crate::reload::{Written, config};
use crate::replicas::{Replica, unused_address};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;

/// The result of a command.
struct Ended {
    code: Option<i32>,
    out: String,
    error: String,
}

impl Ended {
    /// Its output, if it succeeded.
    fn well(self) -> String {
        assert_eq!((self.code, self.error.as_str()), (Some(0), ""));
        self.out
    }

    /// Its error, if it ended with this code.
    fn badly(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.error);
        assert_eq!(self.out, "");
        self.error
    }
}

/// Runs `slackwater admin` at the proxy's admin server, with the token in the environment if there
/// is one.
async fn admin(proxy: &Proxy, token: Option<&str>, args: &[&str]) -> Ended {
    let address = proxy.admin.to_string();
    let mut command = slackwater(&["admin", "--admin", &address]);
    command.args(args).env_remove("SLACKWATER_ADMIN_TOKEN");
    if let Some(token) = token {
        command.env("SLACKWATER_ADMIN_TOKEN", token);
    }
    // Replicas run on this thread, so it must not block.
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the command with the token; it must succeed.
async fn done(proxy: &Proxy, args: &[&str]) -> String {
    admin(proxy, Some(TOKEN), args).await.well()
}

/// Sends a request that waits. Returns its client, and which of two replicas has it.
async fn request_in_flight(proxy: &Proxy) -> (Client, usize) {
    let mut client = Client::connect(proxy.address).await;
    client
        .send("GET /slow HTTP/1.1\r\nhost: test\r\n\r\n")
        .await;
    let place = until("one of them has a request", async || {
        let shown = proxy.status().await;
        (0..2).find(|&place| shown["replicas"][place]["in_flight"] == 1)
    })
    .await;
    (client, place)
}

#[tokio::test]
async fn admin_commands_drain_weigh_and_restore_a_replica() {
    let go_on = Arc::new(Notify::new());
    let (one, two) = (
        Replica::slow(&go_on, "one").await,
        Replica::slow(&go_on, "two").await,
    );
    let (proxy, _written, token) = controlled("command", &[&one, &two]);
    let (mut held, place) = request_in_flight(&proxy).await;
    let name = [&one, &two][place].address.to_string();

    let drain = ["drain", &name, "--wait", "0"];
    let why = admin(&proxy, Some(TOKEN), &drain).await.badly(1);
    assert!(
        why.contains(&format!(
            "default, {name}: drained, but after 0ns it still has 1 request"
        )),
        "{why}"
    );
    go_on.notify_one();
    assert_eq!(held.answer().await.status, 200);
    let file = token.path();
    proxy.settled().await;
    let by_file = ["--token-file", file, "drain", &name, "--wait", "0"];
    assert_eq!(
        admin(&proxy, None, &by_file).await.well(),
        format!("default, {name}: drained, weight as its fleet says\n")
    );
    assert_eq!(overrides(&proxy).await["replicas"][0]["drained"], true);
    let text = done(&proxy, &["status"]).await;
    assert!(text.starts_with("slackwater serve "), "{text}");
    assert!(
        text.contains("\nchanged at run time: 0 settings and 1 replica\n"),
        "{text}"
    );
    let row = text.lines().find(|line| line.starts_with(&name)).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[..3], [&name, &name, "draining"]);
    assert_eq!(cells[4..6], ["s", "ago"], "since when: {row}");
    assert_eq!(cells[6..12], ["drained", "by", "an", "operator", "1", "0"]);
    assert_eq!(cells.len(), 14, "attempts, and those that failed: {row}");

    let told = done(&proxy, &["weight", &name, "3", "--json"]).await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["weight"], &told["drained"]),
        (&json!(3), &json!(true))
    );
    done(&proxy, &["undrain", &name, "--service", "default"]).await;
    let text = done(&proxy, &["overrides"]).await;
    let row = text.lines().nth(1).unwrap();
    let cells: Vec<_> = row.split_whitespace().take(5).collect();
    assert_eq!(cells, ["default", &name, &name, "no", "3"]);
    assert_eq!(
        done(&proxy, &["weight", &name, "fleet"]).await,
        format!("default, {name}: takes requests, weight as its fleet says\n")
    );
    assert_eq!(
        done(&proxy, &["overrides"]).await,
        "nothing is changed at run time\n"
    );
}

#[tokio::test]
async fn drain_waits_for_requests_from_before_another_weight_or_another_policy() {
    let go_on = Arc::new(Notify::new());
    let (one, two) = (
        Replica::slow(&go_on, "one").await,
        Replica::slow(&go_on, "two").await,
    );
    let (proxy, _written, _token) = controlled("command-drain", &[&one, &two]);
    let (mut held, place) = request_in_flight(&proxy).await;
    let name = [&one, &two][place].address.to_string();
    let drain = ["drain", &name, "--wait", "0"];

    for change in [
        &["weight", &name, "0"][..],
        &["policy", "random"],
        &["weight", &name, "fleet"],
        &["policy", "prequal"],
    ] {
        done(&proxy, change).await;
        let why = admin(&proxy, Some(TOKEN), &drain).await.badly(1);
        assert!(why.contains("still has 1 request"), "{change:?}: {why}");
    }
    go_on.notify_one();
    assert_eq!(held.answer().await.status, 200);
    proxy.settled().await;
    done(&proxy, &drain).await;
}

#[tokio::test]
async fn drain_cannot_wait_for_a_replica_that_leaves() {
    let go_on = Arc::new(Notify::new());
    let (one, two) = (
        Replica::slow(&go_on, "one").await,
        Replica::slow(&go_on, "two").await,
    );
    let (proxy, written, token) = controlled("command-leave", &[&one, &two]);
    let (_held, place) = request_in_flight(&proxy).await;
    let (leaving, staying) = if place == 0 {
        (&one, &two)
    } else {
        (&two, &one)
    };
    let drain = ["drain", &leaving.address.to_string(), "--wait", "60s"];
    let (drained, ()) = tokio::join!(admin(&proxy, Some(TOKEN), &drain), async {
        until("it is drained", async || {
            let shown = proxy.status().await;
            (shown["replicas"][place]["state"] == "draining").then_some(())
        })
        .await;
        written.become_text(&config(&[staying], &token.section()));
        done(&proxy, &["reload"]).await;
    });
    let why = drained.badly(1);
    assert!(why.contains("it has left the fleet"), "{why}");
}

#[tokio::test]
async fn settings_are_tried_set_and_removed_and_the_rest_is_reported() {
    let one = Replica::echo("one").await;
    let token = Token::new("command-settings");
    let more = token.section() + "[decisions]\nsample = 1\n";
    let written = Written::new("command-settings", &config(&[&one], &more));
    let proxy = written.serve(&[]);
    assert_eq!(get(proxy.address, "/why").await.status, 200);

    let tried = done(&proxy, &["policy", "random", "--dry-run"]).await;
    let expected = "dry run, nothing is changed; it would be:\npolicy: \"round_robin\" → \"random\"\n\
                    services that are new or rebuilt: default\nremark: ";
    assert!(tried.starts_with(expected), "{tried}");
    assert_eq!(overrides(&proxy).await["settings"], json!([]));
    done(&proxy, &["policy", "random"]).await;
    let set = [
        "set",
        "retries.attempts_max=4",
        "hedge.enabled=true",
        "queue.wait_max=70ms",
    ];
    let told = done(&proxy, &set).await;
    for line in [
        "retries.attempts_max: 3 → 4",
        "hedge.enabled: false → true",
        "queue.wait_max: ",
    ] {
        assert!(told.contains(line), "{told}");
    }
    let told = done(&proxy, &["unset", "retries.attempts_max"]).await;
    assert!(told.starts_with("retries.attempts_max: 4 → 3\n"), "{told}");
    let all: Value = serde_json::from_str(&done(&proxy, &["overrides", "--json"]).await).unwrap();
    assert_eq!(all, overrides(&proxy).await);
    assert_eq!(all["settings"].as_array().map(Vec::len), Some(3));
    let file = done(&proxy, &["config"]).await;
    assert!(
        file.contains("policy = \"random\"") && !file.contains(TOKEN),
        "{file}"
    );
    let told = done(&proxy, &["reload", "--dry-run"]).await;
    assert!(told.starts_with("dry run, nothing is changed"), "{told}");
    let told = done(&proxy, &["reload"]).await;
    let expected = "no service and no listener changes\nremark: ";
    assert!(told.starts_with(expected), "{told}");
    let told = done(&proxy, &["clear"]).await;
    assert!(
        told.starts_with("taken back:\nSERVICE") && told.contains("hedge.enabled"),
        "{told}"
    );
    assert_eq!(
        done(&proxy, &["clear", "--service", "default"]).await,
        "there was nothing to take back\n"
    );

    // Commands that only read need no token.
    let address = one.address.to_string();
    let asked = [
        "decisions",
        "--replica",
        &address,
        "--failed",
        "false",
        "--limit",
        "1",
    ];
    let told = admin(&proxy, None, &asked).await.well();
    assert!(
        told.contains("GET /why for default (round_robin): 200"),
        "{told}"
    );
    let asked = ["decisions", "--slower-than", "1h", "--json"];
    let told: Value = serde_json::from_str(&admin(&proxy, None, &asked).await.well()).unwrap();
    assert_eq!((&told["kept"], &told["matching"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn errors_are_reported_with_the_remedy() {
    let one = Replica::echo("one").await;
    let (proxy, _written, _token) = controlled("command-wrong", &[&one]);
    let bare = Proxy::start(&[one.address], "");
    let words = format!(
        "agent --listen 127.0.0.1:0 --admin 127.0.0.1:0 --to {}",
        one.address
    );
    let agent = Proxy::spawn(&words.split(' ').collect::<Vec<_>>());
    let other = "0123456789abcdef";
    for (proxy, token, args, complaint) in [
        (
            &proxy,
            None,
            "config",
            "wants a token: name its file with --token-file",
        ),
        (&proxy, Some(other), "clear", "does not know this token"),
        (
            &proxy,
            Some("short"),
            "clear",
            "SLACKWATER_ADMIN_TOKEN does not hold a token, expected from 16",
        ),
        (
            &proxy,
            None,
            "clear --token-file /nowhere/t",
            "--token-file /nowhere/t: there is no such file",
        ),
        (
            &proxy,
            Some(TOKEN),
            "drain nobody",
            ": service default has no replica \"nobody\", expected one of",
        ),
        (
            &proxy,
            Some(TOKEN),
            "drain a --service b",
            ": there is no service \"b\", expected one of default",
        ),
        (
            &proxy,
            Some(TOKEN),
            "policy best",
            "policy: found \"best\", expected one of",
        ),
        (&proxy, Some(TOKEN), "set policy", "expected KEY=VALUE"),
        (
            &proxy,
            Some(TOKEN),
            "set a=1 b=2",
            "a: is no setting of a service",
        ),
        (
            &proxy,
            Some(TOKEN),
            "weight a 70000",
            "expected a whole number from 0 to 65535, or fleet",
        ),
        (
            &proxy,
            None,
            "decisions --reason why",
            "parameter reason: found \"why\", expected one of",
        ),
        (&proxy, None, "config --json", "leave --json out"),
        (
            &bare,
            Some(TOKEN),
            "clear",
            "nothing can be changed here: set admin.token_file",
        ),
        (
            &bare,
            Some(TOKEN),
            "reload --admin https://a",
            "admin servers speak plain HTTP",
        ),
        (
            &agent,
            Some(TOKEN),
            "drain a",
            "it is an agent, a demo or an older slackwater",
        ),
    ] {
        let args: Vec<_> = args.split(' ').collect();
        let why = admin(proxy, token, &args).await.badly(2);
        assert!(why.contains(complaint), "{args:?}: {why}");
        assert!(!why.contains(TOKEN) && !why.contains(other), "{why}");
    }
}

#[tokio::test]
async fn decisions_of_a_replica_that_is_not_known_are_a_mistake() {
    let one = Replica::echo("one").await;
    let (proxy, _written, _token) = controlled("command-unknown", &[&one]);
    for form in [&[][..], &["--json"]] {
        let asked = [&["decisions", "--replica", "nobody"][..], form].concat();
        let why = admin(&proxy, None, &asked).await.badly(2);
        let complaint = format!("no replica nobody is known; there are: {}", one.address);
        assert!(why.contains(&complaint), "{why}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_distinguished_from_a_mistake() {
    let one = Replica::echo("one").await;
    let (proxy, _written, _token) = controlled("command-gone", &[&one]);
    let address = unused_address().await.to_string();
    let gone = ["status", "--admin", &address];
    let why = admin(&proxy, None, &gone).await.badly(1);
    let complaint = format!("slackwater: cannot connect to {address}: ");
    assert!(why.starts_with(&complaint), "{why}");
}
