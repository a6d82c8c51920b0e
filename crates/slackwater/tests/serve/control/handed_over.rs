//! Changes at run time and an upgrade: all of them are handed over, or none.

use super::{Token, ask, controlled, done, overrides};
use crate::clients::get;
use crate::proxy::{Proxy, unconfigured, until};
use crate::reload::{Written, config};
use crate::replicas::Replica;
use crate::upgrade::{process, successor_of};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

#[tokio::test]
async fn overrides_survive_two_upgrades() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let (mut proxy, _written, _token) = controlled("handed-over", &[&one, &two]);
    let drained = one.address.to_string();
    done(
        &proxy,
        "/settings",
        &json!({"set": {"policy": "least_loaded", "retries.attempts_max": 4}}),
    )
    .await;
    for change in [
        json!({"replica": drained, "drained": true}),
        json!({"replica": two.address.to_string(), "weight": 7}),
    ] {
        done(&proxy, "/replica", &change).await;
    }
    let before = overrides(&proxy).await;
    assert_eq!(before["settings"].as_array().map(Vec::len), Some(2));

    let first = process(&proxy).await;
    proxy.signal("USR2");
    let line = proxy.log_line("overrides kept from the previous process");
    assert!(
        line.contains("settings=2") && line.contains("replicas=2"),
        "{line}"
    );
    let second = successor_of(&proxy, first).await;
    assert_eq!(proxy.ended().await.code(), Some(0));
    assert_eq!(overrides(&proxy).await, before, "also since when");
    for _ in 0..10 {
        let answer = get(proxy.address, "/").await;
        assert!(answer.text().starts_with("two"), "{}", answer.text());
    }
    let shown = proxy.status().await;
    assert_eq!(shown["services"][0]["policy"], "least_loaded");
    assert_eq!(
        shown["replicas"][0]["requests"]["sent"], 0,
        "from the first one on"
    );
    assert_eq!(shown["replicas"][1]["weight"], 7);
    assert_eq!(shown["overrides"]["replicas"], 2);

    // The overrides can be removed as usual, for later processes, too.
    let cleared = done(&proxy, "/overrides/clear", &json!({})).await;
    assert_eq!(cleared, before);
    assert_eq!(proxy.status().await["services"][0]["policy"], "round_robin");
    second.signal("USR2");
    let third = successor_of(&proxy, second.id()).await;
    second.ended().await;
    let none =
        json!({"settings": [], "replicas": [], "control_plane": [], "control_plane_refused": []});
    assert_eq!(overrides(&proxy).await, none);
    drop(third);
}

#[tokio::test]
async fn upgrade_refuses_conflicting_files_and_drops_orphaned_overrides() {
    let one = Replica::echo("one").await;
    let token = Token::new("handed-over-not");
    let text = |services: &[&str], probe: &str| {
        let replica = one.address;
        let of = |name: &&str| {
            format!(
                "[services.{name}]\npolicy = \"random\"\nreplicas = [\"{replica}\"]\nprobe.transport = \"{probe}\"\n"
            )
        };
        let all: String = services.iter().map(of).collect();
        let routes = "[[routes]]\nservice = \"web\"\n";
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\n{all}{routes}{}",
            token.section()
        )
    };
    let written = Written::new("handed-over-not", &text(&["web", "api"], "udp"));
    let mut proxy = written.serve(&[]);
    let old = process(&proxy).await;
    let settings = json!({"service": "web", "set": {"policy": "prequal_sync"}});
    done(&proxy, "/settings", &settings).await;
    let replica = json!({"service": "api", "replica": one.address.to_string(), "weight": 3});
    done(&proxy, "/replica", &replica).await;

    // A policy with probes, but no replica that can be probed.
    written.become_text(&text(&["web", "api"], "none"));
    proxy.signal("USR2");
    let line = proxy.log_line("upgrade failed");
    assert!(line.contains("exit status: 2"), "{line}");
    assert_eq!(process(&proxy).await, old);
    assert_eq!(
        overrides(&proxy).await["settings"][0]["value"],
        "\"prequal_sync\""
    );

    written.become_text(&text(&["web"], "udp"));
    proxy.signal("USR2");
    let line = proxy.log_line("its settings at run time are dropped");
    assert!(line.contains("service=\"api\""), "{line}");
    let new = successor_of(&proxy, old).await;
    // The old process may answer until it has ended.
    assert_eq!(proxy.ended().await.code(), Some(0));
    let set = overrides(&proxy).await;
    assert_eq!(set["settings"][0]["value"], "\"prequal_sync\"");
    assert_eq!(set["replicas"], json!([]));
    drop(new);
}

/// A name of the program that can point to another file. It is removed when dropped, with the files
/// beside it.
struct Name(PathBuf);

impl Name {
    fn new() -> Self {
        let name = format!("slackwater-name-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        symlink(env!("CARGO_BIN_EXE_slackwater"), folder.join("slackwater")).unwrap();
        Self(folder)
    }

    fn program(&self) -> PathBuf {
        self.0.join("slackwater")
    }

    /// Replaces the program by one that writes its process id and does nothing else.
    fn become_silent(&self) -> PathBuf {
        let (new, number) = (self.0.join("new"), self.0.join("number"));
        let told = number.with_extension("told");
        let script = format!(
            "#!/bin/sh\necho $$ > {0}\nmv {0} {1}\nexec sleep 1000\n",
            told.display(),
            number.display()
        );
        std::fs::write(&new, script).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::rename(&new, self.program()).unwrap();
        number
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn weight(proxy: &Proxy, replica: &Replica, weight: u16) -> (u16, String) {
    let change = json!({"replica": replica.address.to_string(), "weight": weight});
    ask(proxy, "/replica", &change).await
}

async fn number(file: &Path) -> String {
    until("the program runs", async || {
        std::fs::read_to_string(file).ok()
    })
    .await
}

#[tokio::test]
async fn changes_are_refused_during_an_upgrade() {
    let (one, token, name) = (
        Replica::echo("one").await,
        Token::new("put-off"),
        Name::new(),
    );
    let written = Written::new("put-off", &config(&[&one], &token.section()));
    let mut command = Command::new(name.program());
    unconfigured(&mut command);
    let args = ["serve", "--admin", "127.0.0.1:0", "--config"];
    let proxy = Proxy::spawn_command(command.args(args).arg(written.path()));
    let told = name.become_silent();
    proxy.signal("USR2");
    let silent = number(&told).await;
    let (refused, why) = weight(&proxy, &one, 3).await;
    assert_eq!(refused, 503, "{why}");
    assert!(why.contains("another process is taking over"), "{why}");
    assert_eq!(overrides(&proxy).await["replicas"], json!([]));

    let killed = Command::new("kill").args(["-KILL", silent.trim()]).status();
    assert!(killed.unwrap().success());
    proxy.log_line("upgrade failed");
    let (done, told) = weight(&proxy, &one, 3).await;
    assert_eq!(done, 200, "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["weight"], 3);
}
