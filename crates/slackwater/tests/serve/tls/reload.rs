//! Reloads of the configuration with TLS in use: listeners and services that stay keep their state.

use super::rig::{Authority, Folder, Secured, TlsReplica, connect, quoted};
use crate::clients::get;
use crate::proxy::{PATIENCE, Proxy, until};
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use core::net::SocketAddr;
use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Sends a request on a connection that stays open, and reads the response, which is that of an
/// echo without a body.
async fn ask_on(stream: &mut Secured) -> String {
    let asking = async {
        let request = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";
        stream.write_all(request).await.expect("open");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let byte = stream.read_u8().await.expect("a response");
            head.push(char::from(byte));
        }
        head
    };
    timeout(PATIENCE, asking).await.expect("in time")
}

#[tokio::test]
async fn added_listeners_and_services_leave_tls_ones_alone() {
    let (authority, folder) = (Authority::new(), Folder::new());
    authority.issue(&["a.test"]).write(&folder, "a");
    folder.write("ca.pem", &authority.pem());
    let secured = TlsReplica::start(&authority.issue(&["127.0.0.1"]), &[], None).await;
    let plain = Replica::echo("plain").await;
    let path = |name: &str| quoted(&folder.file(name));
    let listener = format!(
        "[[listeners]]\nname = \"secured\"\naddress = \"127.0.0.1:0\"\n\
         tls.certificates = [{{ certificate = {}, key = {} }}]\n",
        path("a.pem"),
        path("a.key")
    );
    let service = format!(
        "[services.web]\nreplicas = [\"{}\"]\nreplica.tls.ca = {}\nprobe.transport = \"none\"\n",
        secured.address,
        path("ca.pem")
    );
    let before = format!("workers = 1\n{listener}{service}[[routes]]\nservice = \"web\"\n");
    let written = Written::new("others", &before);
    let proxy = written.serve(&[]);
    let config = authority.client().config();
    let mut stays = connect(&config, proxy.address, "a.test").await.unwrap();
    assert!(ask_on(&mut stays).await.starts_with("HTTP/1.1 200"));
    let handshakes = async || {
        let status = proxy.status().await;
        status["handshakes"].clone()
    };
    let counted = handshakes().await;
    assert!(counted.to_string().contains("secured"), "{counted}");

    // The new ones come first, so that the old ones have other indices.
    let more = format!(
        "workers = 1\n[[listeners]]\nname = \"more\"\naddress = \"127.0.0.1:0\"\n{listener}\
         [services.more]\nreplicas = [\"{}\"]\nprobe.transport = \"none\"\n{service}\
         [[routes]]\nlisteners = [\"more\"]\nservice = \"more\"\n[[routes]]\nservice = \"web\"\n",
        plain.address
    );
    let more = more.replace(
        "name = \"more\"\naddress = \"127.0.0.1:0\"",
        "name = \"more\"\naddress = \"127.0.0.2:0\"",
    );
    written.become_text(&more);
    proxy.signal("HUP");
    let told = proxy.log_line("configuration reloaded");
    assert!(told.contains("services_kept=1"), "{told}");
    assert!(told.contains("services_started=\"more\""), "{told}");
    assert_eq!(handshakes().await, counted);
    assert!(ask_on(&mut stays).await.starts_with("HTTP/1.1 200"));
    let resumed = connect(&config, proxy.address, "a.test").await.unwrap();
    assert_eq!(
        resumed.get_ref().1.handshake_kind(),
        Some(HandshakeKind::Resumed)
    );

    // Files are watched as before.
    authority.issue(&["b.test"]).write(&folder, "a");
    proxy.log_line("certificates or keys reloaded");
    let renewed = authority.client();
    assert!(renewed.connect(proxy.address, "b.test").await.is_ok());
}

fn renamed(replica: SocketAddr, name: &str, folder: &Folder) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"round_robin\"\n\
         replicas = [{{ address = \"{replica}\", server_name = \"{name}\" }}]\n\
         probe.transport = \"none\"\ntimeouts.connect = \"30s\"\n\
         [health]\ncheck = \"http\"\ninterval = \"10m\"\ntimeout = \"30s\"\n\
         [replica.tls]\nca = {}\n",
        quoted(&folder.file("ca.pem"))
    )
}

#[tokio::test]
async fn changed_name_of_a_replica_is_verified() {
    let (authority, folder) = (Authority::new(), Folder::new());
    folder.write("ca.pem", &authority.pem());
    let replica = TlsReplica::start(&authority.issue(&["a.test"]), &[], None).await;
    let text = |name| renamed(replica.address, name, &folder);
    let written = Written::new("renamed", &text("a.test"));
    let proxy = written.serve(&[]);
    let is = async |proxy: &Proxy, verdict: &str| {
        until(verdict, async || {
            let status = proxy.status().await;
            (status["replicas"][0]["health"]["verdict"] == verdict).then_some(())
        })
        .await;
    };
    for (name, answer, verdict) in [("a.test", 200, "up"), ("b.test", 502, "down")] {
        written.become_text(&text(name));
        reload(&proxy);
        is(&proxy, verdict).await;
        assert_eq!(get(proxy.address, "/").await.status, answer, "{name}");
    }
    written.become_text(&text("a.test"));
    reload(&proxy);
    is(&proxy, "up").await;
    assert_eq!(get(proxy.address, "/").await.status, 200);
    let sent = proxy.sum("/requests/sent").await;
    assert_eq!(sent, 3, "one replica all the time");
}
