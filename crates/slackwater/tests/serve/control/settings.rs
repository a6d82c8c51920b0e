//! Settings at run time: they take effect at once, and have priority over the file's.

use super::{TOKEN, Token, ask, bearer, controlled, done, overrides, send};
use crate::clients::get;
use crate::proxy::{Proxy, slackwater, until};
use crate::reload::{Written, config, reload};
use crate::replicas::Replica;
use serde_json::{Value, json};

/// How often the policy picked for this reason.
async fn picks(proxy: &Proxy, reason: &str) -> Value {
    proxy.status().await["services"][0]["counts"]["picks"][reason].clone()
}

async fn policy(proxy: &Proxy) -> Value {
    proxy.status().await["services"][0]["policy"].clone()
}

#[tokio::test]
async fn policy_override_takes_effect_immediately() {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let [one, two] = &replicas;
    let (proxy, _written, _token) = controlled("policy", &[one, two]);
    for _ in 0..5 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    assert_eq!(picks(&proxy, "turn").await, 5);
    let body = json!({"set": {"policy": "random", "retries.attempts_max": 4}, "dry_run": true});
    let would = done(&proxy, "/settings", &body).await;
    let expected = json!([
        {"key": "policy", "from": "\"round_robin\"", "to": "\"random\""},
        {"key": "retries.attempts_max", "from": "3", "to": "4"},
    ]);
    assert_eq!(would["changed"], expected);
    assert_eq!(would["services_started"], json!(["default"]));
    assert_eq!(picks(&proxy, "turn").await, 5, "nothing was done");
    assert_eq!(overrides(&proxy).await["settings"], json!([]));

    let body = json!({"set": {"policy": "random", "retries.attempts_max": 4}});
    let is = done(&proxy, "/settings", &body).await;
    assert_eq!(is["changed"], expected);
    let line = proxy.log_line("setting changed at run time");
    for told in ["peer=127.0.0.1:", "key=\"policy\"", "round_robin", "random"] {
        assert!(line.contains(told), "{told}: {line}");
    }
    for _ in 0..5 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    assert_eq!(picks(&proxy, "random").await, 5);
    assert_eq!(picks(&proxy, "turn").await, 0, "rebuilt");
    let set = overrides(&proxy).await;
    let first = &set["settings"][0];
    assert_eq!(first["key"], "policy");
    assert_eq!(first["value"], "\"random\"");
    assert_eq!(first["instead_of"], "\"round_robin\"");
    assert!(first["since_ms"].as_u64().unwrap() > 1_700_000_000_000);

    let back = json!({"service": "default", "set": {"policy": null}});
    assert_eq!(
        done(&proxy, "/settings", &back).await["changed"][0]["to"],
        "\"round_robin\""
    );
    assert_eq!(policy(&proxy).await, "round_robin");
    let set = overrides(&proxy).await;
    assert_eq!(
        set["settings"].as_array().unwrap().len(),
        1,
        "the other one stays"
    );
    let same = done(
        &proxy,
        "/settings",
        &json!({"set": {"retries.attempts_max": 4}}),
    )
    .await;
    assert_eq!(
        (&same["changed"], &same["services_started"]),
        (&json!([]), &json!([]))
    );
}

#[tokio::test]
async fn override_survives_reloads_until_it_is_removed() {
    let one = Replica::echo("one").await;
    let token = Token::new("outlives");
    let text = config(&[&one], &token.section());
    let written = Written::new("outlives", &text);
    let proxy = written.serve(&["--policy", "least_loaded"]);
    assert_eq!(policy(&proxy).await, "least_loaded", "by a flag");
    done(&proxy, "/settings", &json!({"set": {"policy": "random"}})).await;
    assert_eq!(policy(&proxy).await, "random");

    // Edits of the file in the meantime are not put in force.
    written.become_text(&text.replace("workers = 2", "workers = 2\nhedge.enabled = true"));
    done(
        &proxy,
        "/settings",
        &json!({"set": {"queue.requests_max": 7}}),
    )
    .await;
    let (_, config_text) = send(&proxy, "GET /config", &bearer(TOKEN), "").await;
    assert!(
        config_text.contains("[services.default.hedge]\nenabled = false"),
        "{config_text}"
    );
    let would = done(&proxy, "/reload", &json!({"dry_run": true})).await;
    assert_eq!(would["services_started"], json!(["default"]));
    assert_eq!(proxy.status().await["reloads"]["taken"], 0);

    let is = done(&proxy, "/reload", &json!({})).await;
    assert_eq!(is["services_started"], json!(["default"]));
    assert!(
        proxy
            .log_line("still override the file")
            .contains("settings=2")
    );
    assert_eq!(policy(&proxy).await, "random", "over the flag still");
    assert_eq!(proxy.status().await["reloads"]["taken"], 1);
    assert_eq!(proxy.status().await["overrides"]["settings"], 2);

    written.become_text("polcy = 3\n");
    let (refused, why) = ask(&proxy, "/reload", &json!({})).await;
    assert_eq!(refused, 422);
    assert!(
        why.contains("unknown key, did you mean \"policy\"?"),
        "{why}"
    );
    assert_eq!(policy(&proxy).await, "random");

    let cleared = done(&proxy, "/overrides/clear", &json!({"service": "default"})).await;
    assert_eq!(cleared["settings"].as_array().unwrap().len(), 2);
    assert_eq!(policy(&proxy).await, "least_loaded", "by the flag again");
    assert_eq!(overrides(&proxy).await["settings"], json!([]));
}

#[tokio::test]
async fn override_ends_with_its_service_and_may_invalidate_a_file() {
    let one = Replica::echo("one").await;
    let token = Token::new("named");
    let service = |name: &str| {
        format!(
            "[services.{name}]\npolicy = \"round_robin\"\nreplicas = [\"{}\"]\nprobe.transport = \"none\"\n",
            one.address
        )
    };
    let text = |services: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\n{services}[[routes]]\nservice = \"web\"\n{}",
            token.section()
        )
    };
    let written = Written::new("named", &text(&(service("web") + &service("api"))));
    let proxy = written.serve(&[]);
    let (refused, why) = ask(&proxy, "/settings", &json!({"set": {}})).await;
    assert_eq!(
        (refused, &*why),
        (422, "service is missing, expected one of web, api\n")
    );
    for service in ["web", "api"] {
        done(
            &proxy,
            "/settings",
            &json!({"service": service, "set": {"policy": "random"}}),
        )
        .await;
    }
    let shown = proxy.status().await;
    let policies = [0, 1].map(|place| shown["services"][place]["policy"].clone());
    assert_eq!(policies, ["random", "random"]);
    written.become_text(&text(&service("web")));
    proxy.signal("HUP");
    assert!(
        proxy
            .log_line("its settings at run time are dropped")
            .contains("service=\"api\"")
    );
    proxy.log_line("configuration reloaded");
    assert_eq!(
        overrides(&proxy).await["settings"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    // A policy with probes, when the file has just turned off probes.
    let probing = text(&service("web")).replace("probe.transport = \"none\"\n", "");
    written.become_text(&probing);
    reload(&proxy);
    let set = json!({"service": "web", "set": {"policy": "prequal_sync"}});
    done(&proxy, "/settings", &set).await;
    written.become_text(&text(&service("web")));
    reload(&proxy);
    let failure = proxy.status().await["reloads"]["failure"].clone();
    assert!(
        failure
            .as_str()
            .unwrap()
            .contains("policy = \"prequal_sync\""),
        "{failure}"
    );
    assert_eq!(policy(&proxy).await, "prequal_sync");
}

#[tokio::test]
async fn shown_configuration_states_weights_of_replicas_that_are_found() {
    let one = Replica::echo("one").await;
    let token = Token::new("found");
    let list = format!("replicas = [\"{}\"]\n", one.address);
    let fleet = Written::new("found-fleet", &list);
    let file = format!("discovery.file = {:?}\n", fleet.path());
    let text = config(&[&one], &token.section()).replace(&list, &file);
    let written = Written::new("found", &text);
    let proxy = written.serve(&[]);
    let replica = one.address.to_string();
    let change = json!({"replica": replica, "weight": 9});
    done(&proxy, "/replica", &change).await;
    let (_, text) = send(&proxy, "GET /config", &bearer(TOKEN), "").await;
    let note =
        format!("# weight 9 since run time: replica {replica:?} of service default at {replica}\n");
    assert!(text.starts_with(&note), "{text}");
}

#[tokio::test]
async fn shown_configuration_has_overrides_and_no_secrets() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let (proxy, _written, token) = controlled("shown", &[&one, &two]);
    let replica = one.address.to_string();
    done(
        &proxy,
        "/replica",
        &json!({"replica": replica, "weight": 9, "drained": true}),
    )
    .await;
    done(
        &proxy,
        "/settings",
        &json!({"set": {"policy": "random", "hedge.budget": 0.05}}),
    )
    .await;
    let (status, text) = send(&proxy, "GET /config", &bearer(TOKEN), "").await;
    assert_eq!(status, 200);
    assert!(!text.contains(TOKEN));
    assert!(
        text.contains("policy = \"random\"") && text.contains("weight = 9"),
        "{text}"
    );
    let note =
        format!("# drained at run time: replica {replica:?} of service default at {replica}\n");
    assert!(text.starts_with(&note), "{text}");
    let file = token.0.with_extension("shown.toml");
    std::fs::write(&file, &text).unwrap();
    let checked = slackwater(&["check", file.to_str().unwrap()])
        .output()
        .unwrap();
    let _ = std::fs::remove_file(&file);
    assert!(checked.status.success(), "{checked:?}");
    until("it is in force", async || {
        (get(proxy.address, "/").await.text().starts_with("two")).then_some(())
    })
    .await;
}
