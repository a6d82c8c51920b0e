//! TLS clients: valid ones, and those that are rejected.

use super::rig::{Authority, Folder, Issued, Secured, ask, connect, get, quoted, tls_section};
use crate::clients::{Client, full, http2_over};
use crate::proxy::{PATIENCE, Proxy, until};
use crate::replicas::Replica;
use base64::Engine as _;
use http::Request;
use http_body_util::BodyExt;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

fn agreed(stream: &Secured) -> Option<&[u8]> {
    stream.get_ref().1.alpn_protocol()
}

fn shown(stream: &Secured) -> &[u8] {
    &stream.get_ref().1.peer_certificates().unwrap()[0]
}

/// A proxy for `a.test`, before a replica that echoes.
async fn proxy(authority: &Authority, more: &str) -> (Proxy, Replica) {
    let (folder, replica) = (Folder::new(), Replica::echo("replica").await);
    authority.issue(&["a.test"]).write(&folder, "a");
    folder.write("ca.pem", &authority.pem());
    let more = more.replace("CA", &quoted(&folder.file("ca.pem")));
    let proxy = Proxy::start(&[replica.address], &tls_section(&folder, &["a"], &more));
    (proxy, replica)
}

#[tokio::test]
async fn alpn_selects_the_protocol_and_http1_is_the_default() {
    let authority = Authority::new();
    let (proxy, _replica) = proxy(&authority, "").await;
    for (offered, expected) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let client = authority.client().alpn(offered);
        let stream = client.connect(proxy.address, "a.test").await.unwrap();
        assert_eq!(agreed(&stream), expected, "{offered:?}");
        let body = if expected == Some(b"h2") {
            let response = http2_over(stream)
                .await
                .send_request(get("/x"))
                .await
                .unwrap();
            let body = response.into_body().collect().await.unwrap();
            String::from_utf8(body.to_bytes().to_vec()).unwrap()
        } else {
            ask(stream, "GET /x HTTP/1.1").await.unwrap()
        };
        assert!(
            body.contains("replica\nGET /x HTTP/1.1"),
            "{offered:?}: {body}"
        );
    }
    let strange = authority.client().alpn(&["smtp"]);
    let refused = strange.connect(proxy.address, "a.test").await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("NoApplicationProtocol")
    );
}

#[tokio::test]
async fn a_listener_offers_the_configured_protocols() {
    let authority = Authority::new();
    let (proxy, _replica) = proxy(&authority, "protocols = [\"http/1.1\"]").await;
    let client = authority.client().alpn(&["h2", "http/1.1"]);
    let stream = client.connect(proxy.address, "a.test").await.unwrap();
    assert_eq!(agreed(&stream), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn the_certificate_matches_the_requested_name() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let replica = Replica::echo("replica").await;
    let issue = |name: &str, names: &[&str]| -> Issued {
        let issued = authority.issue(names);
        issued.write(&folder, name);
        issued
    };
    let first = issue("first", &["first.test"]);
    let wild = issue("wild", &["*.a.test"]);
    let exact = issue("exact", &["b.a.test"]);
    let section = tls_section(&folder, &["first", "wild", "exact"], "");
    let proxy = Proxy::start(&[replica.address], &section);
    for (name, expected) in [
        ("first.test", &first),
        ("x.a.test", &wild),
        ("b.a.test", &exact),
    ] {
        let stream = authority.client().connect(proxy.address, name).await;
        assert_eq!(shown(&stream.unwrap()), &*expected.der(), "{name}");
    }
    // A client that requests another name receives the first certificate, and decides itself
    // whether to accept it.
    let other = authority
        .client()
        .connect(proxy.address, "other.test")
        .await;
    assert!(
        other
            .unwrap_err()
            .to_string()
            .contains("not valid for name")
    );
}

#[tokio::test]
async fn large_bodies_arrive_completely_over_both_protocols() {
    let authority = Authority::new();
    let replica = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            let Some(body) = connection.body(1 << 20).await else {
                return;
            };
            assert!(body.iter().all(|byte| *byte == b'u'));
            connection.answer(&"d".repeat(1 << 20)).await;
        }
    })
    .await;
    let folder = Folder::new();
    authority.issue(&["a.test"]).write(&folder, "a");
    let proxy = Proxy::start(&[replica.address], &tls_section(&folder, &["a"], ""));
    let up = "u".repeat(1 << 20);

    let mut stream = authority
        .client()
        .connect(proxy.address, "a.test")
        .await
        .unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1048576\r\nconnection: close\r\n\r\n";
    let mut answer = String::new();
    let exchange = async {
        stream
            .write_all(format!("{head}{up}").as_bytes())
            .await
            .unwrap();
        stream.read_to_string(&mut answer).await.unwrap();
    };
    timeout(PATIENCE, exchange)
        .await
        .expect("no answer in time");
    assert!(answer.split_once("\r\n\r\n").unwrap().1 == "d".repeat(1 << 20));

    let client = authority.client().alpn(&["h2"]);
    let mut sender = http2_over(client.connect(proxy.address, "a.test").await.unwrap()).await;
    let request = Request::post("https://a.test/").body(full(up)).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body == "d".repeat(1 << 20));
    proxy.settled().await;
}

#[tokio::test]
async fn tls_versions_below_the_minimum_are_refused() {
    let authority = Authority::new();
    for (more, tls12) in [("", true), ("version_min = \"1.3\"", false)] {
        let (proxy, _replica) = proxy(&authority, more).await;
        let old = authority.client().version(&TLS12);
        let connected = old.connect(proxy.address, "a.test").await;
        assert_eq!(connected.is_ok(), tls12, "{more:?}");
        if let Err(error) = connected {
            assert!(error.to_string().contains("ProtocolVersion"), "{error}");
        }
        let new = authority.client().version(&TLS13);
        assert!(new.connect(proxy.address, "a.test").await.is_ok());
    }
}

#[tokio::test]
async fn sessions_are_resumed_by_ticket_or_session_cache() {
    let authority = Authority::new();
    for (more, resumes) in [
        ("", true),
        ("tickets = false", true),
        ("sessions_max = 0", true),
        ("tickets = false\nsessions_max = 0", false),
    ] {
        let (proxy, _replica) = proxy(&authority, more).await;
        for version in [&TLS12, &TLS13] {
            let config = authority.client().version(version).config();
            for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
                let stream = connect(&config, proxy.address, "a.test").await.unwrap();
                let kind = stream.get_ref().1.handshake_kind();
                let expected = if resumes {
                    expected
                } else {
                    HandshakeKind::Full
                };
                assert_eq!(kind, Some(expected), "{more:?} {version:?}");
                // Tickets of TLS 1.3 arrive with the first bytes.
                ask(stream, "GET / HTTP/1.1").await.unwrap();
            }
        }
    }
}

/// Sends a request, and returns whether that succeeded. In TLS 1.3 the rejection of a certificate
/// arrives with the first read.
async fn is_let_in(stream: std::io::Result<Secured>) -> bool {
    match stream {
        Ok(stream) => ask(stream, "GET / HTTP/1.1").await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn client_certificates_need_the_configured_authority() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (right, wrong) = (authority.issue(&["me"]), stranger.issue(&["me"]));
    for (more, without) in [
        ("client_ca = CA", false),
        ("client_ca = CA\nclient_certificates = \"optional\"", true),
    ] {
        let (proxy, _replica) = proxy(&authority, more).await;
        for version in [&TLS12, &TLS13] {
            let client = authority.client().version(version);
            let none = client.connect(proxy.address, "a.test").await;
            assert_eq!(is_let_in(none).await, without, "{more}");
            let wrong = client.clone().shows(&wrong);
            assert!(!is_let_in(wrong.connect(proxy.address, "a.test").await).await);
            let right = client.shows(&right);
            assert!(is_let_in(right.connect(proxy.address, "a.test").await).await);
        }
    }
}

/// A resumed session would not be verified again, so a certificate would be valid beyond its end.
#[tokio::test]
async fn client_certificates_are_verified_on_each_connection() {
    let authority = Authority::new();
    let me = authority.issue(&["me"]);
    for more in [
        "client_ca = CA",
        "client_ca = CA\nclient_certificates = \"optional\"",
    ] {
        let (proxy, _replica) = proxy(&authority, more).await;
        for version in [&TLS12, &TLS13] {
            let config = authority.client().version(version).shows(&me).config();
            for _ in 0..3 {
                let stream = connect(&config, proxy.address, "a.test").await.unwrap();
                let kind = stream.get_ref().1.handshake_kind();
                // Tickets of TLS 1.3 arrive with the first bytes.
                ask(stream, "GET / HTTP/1.1").await.unwrap();
                assert_eq!(kind, Some(HandshakeKind::Full), "{more:?} {version:?}");
            }
        }
    }
}

const FORGED: &str = "GET / HTTP/1.1\r\nclient-cert: :Zm9yZ2Vk:\r\nClient-Cert: :Zm9yZ2Vk:\r\n\
                      client-cert-chain: :Zm9yZ2Vk:\r\nclient_cert: :Zm9yZ2Vk:\r\n\
                      connection: Client-Cert";

fn names_a_certificate(head: &str) -> bool {
    let head = head.to_lowercase().replace('_', "-");
    head.contains("client-cert")
}

#[tokio::test]
async fn verified_client_certificates_are_forwarded_and_not_forgeable() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let replica = Replica::echo("replica").await;
    authority.issue(&["a.test"]).write(&folder, "a");
    folder.write("ca.pem", &authority.pem());
    let path = |name: &str| quoted(&folder.file(name));
    let config = format!(
        "workers = 1\npolicy = \"random\"\nreplicas = [\"{}\"]\n\
         [[listeners]]\naddress = \"127.0.0.1:0\"\n\
         [listeners.tls]\ncertificates = [{{ certificate = {}, key = {} }}]\nclient_ca = {}\n\
         client_certificates = \"optional\"\npass_client_certificate = true\n\
         [[listeners]]\naddress = \"127.0.0.1:0\"\n",
        replica.address,
        path("a.pem"),
        path("a.key"),
        path("ca.pem"),
    );
    folder.write("c.toml", &config);
    let file = folder.file("c.toml");
    let file = file.to_str().unwrap();
    let proxy = Proxy::spawn(&["serve", "--admin", "127.0.0.1:0", "--config", file]);
    let plain = crate::proxy::address_in(&proxy.log_line("serving"));

    let me = authority.issue(&["me"]);
    let client = authority.client().shows(&me);
    let stream = client.connect(proxy.address, "a.test").await.unwrap();
    let seen = ask(stream, FORGED).await.unwrap();
    let encoded = base64::engine::general_purpose::STANDARD.encode(me.der());
    assert_eq!(seen.matches(":Zm9yZ2Vk:").count(), 0, "{seen}");
    assert!(
        seen.contains(&format!("client-cert: :{encoded}:")),
        "{seen}"
    );

    let nobody = authority
        .client()
        .connect(proxy.address, "a.test")
        .await
        .unwrap();
    let seen = ask(nobody, FORGED).await.unwrap();
    assert!(!names_a_certificate(&seen), "{seen}");

    let mut plainly = Client::connect(plain).await;
    plainly.send(&format!("{FORGED}\r\nhost: x\r\n\r\n")).await;
    let seen = plainly.answer().await.text().to_owned();
    assert!(
        seen.contains("GET /") && !names_a_certificate(&seen),
        "{seen}"
    );
}

#[tokio::test]
async fn without_forwarded_certificates_the_field_is_left_unchanged() {
    let authority = Authority::new();
    let (proxy, _replica) = proxy(&authority, "client_ca = CA").await;
    let client = authority.client().shows(&authority.issue(&["me"]));
    let stream = client.connect(proxy.address, "a.test").await.unwrap();
    let seen = ask(stream, FORGED).await.unwrap();
    assert_eq!(seen.matches(":Zm9yZ2Vk:").count(), 4, "{seen}");
}

#[tokio::test]
async fn new_connections_get_a_changed_certificate_and_old_ones_continue() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let replica = Replica::echo("replica").await;
    authority.issue(&["a.test"]).write(&folder, "a");
    let proxy = Proxy::start(&[replica.address], &tls_section(&folder, &["a"], ""));
    let client = authority.client();
    let mut old = client.connect(proxy.address, "a.test").await.unwrap();
    let old_one = shown(&old).to_vec();

    // A half-finished change is not put in force.
    let next = authority.issue(&["a.test"]);
    folder.write("a.pem", &next.certificate);
    let told = proxy.log_line("certificates or keys rejected");
    assert!(
        told.contains("a.key: the block at line 1 is not the key of the certificate"),
        "{told}"
    );
    let again = client.connect(proxy.address, "a.test").await.unwrap();
    assert_eq!(shown(&again), old_one);

    folder.write("a.key", &next.key);
    proxy.log_line("certificates or keys reloaded");
    until("the new certificate is shown", async || {
        let stream = client.connect(proxy.address, "a.test").await.unwrap();
        (shown(&stream) == &*next.der()).then_some(())
    })
    .await;
    let request = "GET /still HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    old.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, old.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert!(answer.contains("GET /still"), "{answer}");
}

#[tokio::test]
async fn reload_leaves_unchanged_tls_listeners_alone() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let replica = Replica::echo("replica").await;
    authority.issue(&["a.test"]).write(&folder, "a");
    let path = |name: &str| quoted(&folder.file(name));
    let pair = format!(
        "{{ certificate = {}, key = {} }}",
        path("a.pem"),
        path("a.key")
    );
    let write = |more: &str| {
        let tls = format!("[listeners.tls]\ncertificates = [{pair}]\n");
        let text = format!(
            "workers = 1\npolicy = \"random\"\nreplicas = [\"{}\"]\nprobe.transport = \"none\"\n\
             [[listeners]]\naddress = \"127.93.1.1:0\"\n{tls}\
             [[listeners]]\naddress = \"127.93.1.2:0\"\n{tls}{more}\n",
            replica.address
        );
        folder.write("c.toml", &text);
    };
    write("");
    let file = folder.file("c.toml");
    let file = file.to_str().unwrap();
    let proxy = Proxy::spawn(&["serve", "--admin", "127.0.0.1:0", "--config", file]);
    let (same, changed) = (proxy.address, proxy.next_address());
    let old = authority.client().version(&TLS12);
    let mut kept = old.connect(same, "a.test").await.unwrap();

    write("version_min = \"1.3\"");
    proxy.signal("HUP");
    proxy.log_line("configuration reloaded");
    // Workers apply it a moment after the log line.
    until("the old version is refused", async || {
        let refused = old.connect(changed, "a.test").await.is_err();
        refused.then_some(())
    })
    .await;
    // This connection has received no notice, and may continue.
    kept.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, kept.read_u8()).await.unwrap().unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 ") && !head.contains("connection: close"),
        "{head}"
    );

    // The files of both listeners are still watched, that of the unchanged one and that of the
    // changed one.
    let next = authority.issue(&["a.test"]);
    next.write(&folder, "a");
    for address in [same, changed] {
        until("the new certificate is shown", async || {
            let stream = authority.client().connect(address, "a.test").await.unwrap();
            (shown(&stream) == &*next.der()).then_some(())
        })
        .await;
    }
    drop(kept);
    until("each listener has one certificate", async || {
        let status = proxy.status().await;
        (status["certificates"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn idle_connections_are_closed_in_order() {
    let authority = Authority::new();
    for (toml, stops) in [("", true), ("[timeouts]\nidle = \"100ms\"\n", false)] {
        let (mut proxy, _replica) = proxy(&authority, toml).await;
        let mut stream = authority
            .client()
            .connect(proxy.address, "a.test")
            .await
            .unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        let mut first = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut first))
            .await
            .unwrap()
            .unwrap();
        if stops {
            proxy.signal("TERM");
        }
        // It ends with a close_notify; otherwise the read would fail.
        let mut rest = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut rest))
            .await
            .unwrap()
            .unwrap();
        if stops {
            assert!(proxy.ended().await.success());
        }
    }
}
