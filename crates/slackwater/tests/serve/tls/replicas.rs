//! TLS to replicas: which certificates are accepted, for which name, the client certificate,
//! negotiation.

use super::rig::{Authority, Folder, TlsReplica, quoted};
use crate::clients::get;
use crate::proxy::Proxy;
use core::net::SocketAddr;
use rustls::HandshakeKind;

/// A proxy that uses TLS with one replica.
fn proxy(replica: SocketAddr, folder: &Folder, authority: &Authority, keys: &str) -> Proxy {
    folder.write("ca.pem", &authority.pem());
    let keys = keys.replace("CA", &quoted(&folder.file("ca.pem")));
    // A handshake of a debug build takes long while other tests run.
    Proxy::start(&[replica], &(keys + "\n[timeouts]\nconnect = \"30s\"\n"))
}

#[tokio::test]
async fn replicas_are_verified_by_authority_and_name() {
    let (authority, stranger, folder) = (Authority::new(), Authority::new(), Folder::new());
    let names = |names: &[&str]| authority.issue(names);
    for (name, issued, keys, passes) in [
        (
            "by address",
            names(&["127.0.0.1"]),
            "[replica.tls]\nca = CA",
            true,
        ),
        (
            "no name",
            names(&["a.test"]),
            "[replica.tls]\nca = CA",
            false,
        ),
        (
            "by a name",
            names(&["a.test"]),
            "[replica.tls]\nca = CA\nserver_name = \"a.test\"",
            true,
        ),
        (
            "by another name",
            names(&["a.test"]),
            "[replica.tls]\nca = CA\nserver_name = \"b.test\"",
            false,
        ),
        (
            "a stranger",
            stranger.issue(&["127.0.0.1"]),
            "[replica.tls]\nca = CA",
            false,
        ),
        (
            "a stranger believed",
            stranger.issue(&["other.test"]),
            "[replica.tls]\nverify = \"insecure\"",
            true,
        ),
    ] {
        let replica = TlsReplica::start(&issued, &[], None).await;
        let proxy = proxy(replica.address, &folder, &authority, keys);
        let answer = get(proxy.address, "/x").await;
        assert_eq!(answer.status, if passes { 200 } else { 502 }, "{name}");
        assert_eq!(replica.seen().len(), usize::from(passes), "{name}");
        if !passes {
            assert_eq!(
                answer.field("x-slackwater-error"),
                Some("no_connection"),
                "{name}"
            );
            let told = proxy.log_line("TLS");
            assert!(told.contains("certificate"), "{name}: {told}");
            assert_eq!(proxy.sum("/requests/connect_failures").await, 1, "{name}");
        }
        proxy.settled().await;
    }
}

#[tokio::test]
async fn the_requested_name_is_the_host_as_written() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let replica = TlsReplica::start(&authority.issue(&["localhost"]), &[], None).await;
    folder.write("ca.pem", &authority.pem());
    let config = |replica: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"random\"\nreplicas = [{replica}]\n\
             timeouts.connect = \"30s\"\n[replica.tls]\nca = {}\n",
            quoted(&folder.file("ca.pem"))
        )
    };
    let address = replica.address;
    for entry in [
        format!("\"localhost:{}\"", address.port()),
        format!("{{ address = \"{address}\", server_name = \"localhost\" }}"),
    ] {
        folder.write("c.toml", &config(&entry));
        let file = folder.file("c.toml");
        let file = file.to_str().unwrap();
        let proxy = Proxy::spawn(&["serve", "--admin", "127.0.0.1:0", "--config", file]);
        assert_eq!(get(proxy.address, "/").await.status, 200, "{entry}");
        let seen = replica.seen();
        assert_eq!(seen.last().unwrap().asked_for.as_deref(), Some("localhost"));
    }
}

#[tokio::test]
async fn replica_that_requests_a_client_certificate_receives_it() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let ours = authority.issue(&["proxy"]);
    ours.write(&folder, "proxy");
    let replica = TlsReplica::start(&authority.issue(&["127.0.0.1"]), &[], Some(&authority)).await;
    let path = |name: &str| quoted(&folder.file(name));
    let shows = format!(
        "[replica.tls]\nca = CA\ncertificate = {}\nkey = {}",
        path("proxy.pem"),
        path("proxy.key")
    );
    let known = proxy(replica.address, &folder, &authority, &shows);
    assert_eq!(get(known.address, "/").await.status, 200);
    assert_eq!(replica.seen()[0].shown.as_ref(), Some(&ours.der()));

    let without = proxy(
        replica.address,
        &folder,
        &authority,
        "[replica.tls]\nca = CA",
    );
    assert_eq!(get(without.address, "/").await.status, 502);
    assert_eq!(replica.seen().len(), 1);
}

#[tokio::test]
async fn http2_to_a_replica_requires_alpn() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let issued = authority.issue(&["127.0.0.1"]);
    for (protocol, alpn, status) in [
        ("h2", &["h2", "http/1.1"][..], 200),
        ("h2", &["http/1.1"], 502),
        ("h2", &[], 502),
        ("http1", &["h2", "http/1.1"], 200),
        ("http1", &[], 200),
    ] {
        let replica = TlsReplica::start(&issued, alpn, None).await;
        let keys = format!("[replica]\nprotocol = \"{protocol}\"\n[replica.tls]\nca = CA");
        let proxy = proxy(replica.address, &folder, &authority, &keys);
        assert_eq!(
            get(proxy.address, "/").await.status,
            status,
            "{protocol} {alpn:?}"
        );
        for seen in replica.seen() {
            assert_eq!(
                seen.head.starts_with("https:"),
                protocol == "h2",
                "{seen:?}"
            );
        }
    }
}

#[tokio::test]
async fn connections_to_a_replica_resume() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let replica = TlsReplica::start(&authority.issue(&["127.0.0.1"]), &[], None).await;
    // Each request opens a new connection.
    let keys = "[replica]\nidle_connections_max = 0\n[replica.tls]\nca = CA";
    let proxy = proxy(replica.address, &folder, &authority, keys);
    for _ in 0..3 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    let kinds: Vec<_> = replica.seen().iter().map(|seen| seen.handshake).collect();
    assert_eq!(
        kinds,
        [
            HandshakeKind::Full,
            HandshakeKind::Resumed,
            HandshakeKind::Resumed
        ]
    );
}

#[tokio::test]
async fn a_new_authority_is_trusted_without_a_restart() {
    let (old, new, folder) = (Authority::new(), Authority::new(), Folder::new());
    let replica = TlsReplica::start(&new.issue(&["127.0.0.1"]), &[], None).await;
    let proxy = proxy(replica.address, &folder, &old, "[replica.tls]\nca = CA");
    assert_eq!(get(proxy.address, "/").await.status, 502);
    folder.write("ca.pem", &new.pem());
    proxy.log_line("certificates or keys reloaded");
    assert_eq!(get(proxy.address, "/").await.status, 200);
}
