//! Probes to agents over TLS and with a key: they are answered, and other senders learn nothing.

use super::rig::{Authority, Folder, TlsReplica, ask, quoted, tls_section};
use crate::clients::get;
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;

const KEY: &str = "00112233445566778899aabbccddeeff";

fn start(folder: &Folder, command: &str, name: &str, config: &str) -> Proxy {
    folder.write(name, config);
    let file = folder.file(name);
    let file = file.to_str().unwrap();
    Proxy::spawn(&[command, "--admin", "127.0.0.1:0", "--config", file])
}

/// Requests the load without a signature, as any sender can who reaches the port.
async fn curious(authority: &Authority, agent: &Proxy) -> String {
    let stream = authority.client().connect(agent.address, "127.0.0.1").await;
    ask(stream.unwrap(), "GET /prequal/probe HTTP/1.1")
        .await
        .unwrap()
}

#[tokio::test]
async fn only_the_holder_of_the_key_can_read_load_over_tls() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let server = Replica::echo("server").await;
    authority.issue(&["127.0.0.1"]).write(&folder, "agent");
    folder.write("ca.pem", &authority.pem());
    folder.write("key", KEY);
    folder.write("other", &KEY.replace('0', "f"));
    let agent = format!(
        "listen = \"127.0.0.1:0\"\nto = \"{}\"\n[probe]\nkey_file = \"key\"\n{}",
        server.address,
        tls_section(&folder, &["agent"], ""),
    );
    let agent = start(&folder, "agent", "agent.toml", &agent);
    let proxy = |key: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\nreplicas = [\"{}\"]\n\
             [probe]\ntransport = \"http\"\nkey_file = \"{key}\"\n[replica.tls]\nca = {}\n",
            agent.address,
            quoted(&folder.file("ca.pem")),
        )
    };
    let knows = start(&folder, "serve", "knows.toml", &proxy("key"));
    until("probes are answered", async || {
        assert_eq!(get(knows.address, "/x").await.status, 200);
        let metrics = knows.admin_page("/metrics").await;
        let answered = "slackwater_probes_answered_total{service=\"default\"} ";
        let count = metrics.split_once(answered).unwrap().1;
        (count.split_whitespace().next() != Some("0")).then_some(())
    })
    .await;

    let guesses = start(&folder, "serve", "guesses.toml", &proxy("other"));
    until("probes are lost", async || {
        assert_eq!(get(guesses.address, "/x").await.status, 200);
        let metrics = guesses.admin_page("/metrics").await;
        let lost = metrics
            .split_once("slackwater_probes_lost_total{service=\"default\"} ")
            .unwrap()
            .1;
        (lost.split_whitespace().next() != Some("0")).then_some(())
    })
    .await;
    let metrics = guesses.admin_page("/metrics").await;
    assert!(metrics.contains("slackwater_probes_answered_total{service=\"default\"} 0\n"));

    let told = curious(&authority, &agent).await;
    assert!(told.starts_with("HTTP/1.1 403"), "{told}");
    assert!(!told.to_lowercase().contains("rif"), "{told}");
}

#[tokio::test]
async fn health_checks_use_the_tls_settings_of_requests() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let server = Replica::echo("server").await;
    authority.issue(&["127.0.0.1"]).write(&folder, "agent");
    folder.write("ca.pem", &authority.pem());
    let agent = format!(
        "listen = \"127.0.0.1:0\"\nto = \"{}\"\n{}",
        server.address,
        tls_section(&folder, &["agent"], ""),
    );
    let agent = start(&folder, "agent", "agent.toml", &agent);
    let proxy = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"random\"\nreplicas = [\"{}\"]\n\
         [health]\ncheck = \"http\"\npath = \"/ready\"\n[replica.tls]\nca = {}\n",
        agent.address,
        quoted(&folder.file("ca.pem")),
    );
    let proxy = start(&folder, "serve", "proxy.toml", &proxy);
    until("a check has passed", async || {
        let status = proxy.status().await;
        let passed = status.pointer("/replicas/0/health/checks_passed");
        passed
            .and_then(serde_json::Value::as_u64)
            .filter(|passed| *passed > 0)
    })
    .await;
}

#[tokio::test]
async fn grpc_checks_use_http2_even_if_requests_use_http1() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let issued = authority.issue(&["127.0.0.1"]);
    let replica = TlsReplica::start(&issued, &["h2", "http/1.1"], None).await;
    folder.write("ca.pem", &authority.pem());
    let proxy = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"random\"\nreplicas = [\"{}\"]\n\
         [health]\ncheck = \"grpc\"\n[replica]\nprotocol = \"http1\"\n[replica.tls]\nca = {}\n",
        replica.address,
        quoted(&folder.file("ca.pem")),
    );
    let _proxy = start(&folder, "serve", "proxy.toml", &proxy);
    let asked = until("it is asked", async || replica.seen().first().cloned()).await;
    let expected = format!("https://{}/grpc.health.v1.Health/Check", replica.address);
    assert!(asked.head.starts_with(&expected), "{}", asked.head);
}
