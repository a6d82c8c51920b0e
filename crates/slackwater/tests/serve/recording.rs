//! `--record`: the content of the file of a proxy with two workers, a reload and a shutdown, and
//! its replay.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, slackwater, until};
use crate::reload::{Written, reload};
use crate::replicas::{Replica, unused_address};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A path of the test's own, at which there is no file yet; removed when dropped.
pub(crate) struct Recording(PathBuf);

impl Recording {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("slackwater-recording-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// The output of a replay, which must succeed.
    pub(crate) fn replayed(&self) -> String {
        let output = slackwater(&["sim", "replay", self.name()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn ask(proxy: &Proxy, requests: u32) {
    for _ in 0..requests {
        let answer = get(proxy.address, "/").await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_worker_and_configuration_is_a_replayable_stream() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let config = |policy: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 2\npolicy = \"{policy}\"\nreplicas = [\"{}\", \"{}\"]\nprobe.transport = \"none\"\n",
            one.address, two.address
        )
    };
    let (written, file) = (
        Written::new("recorded", &config("prequal")),
        Recording::new("streams"),
    );
    let mut proxy = written.serve(&["--record", file.name()]);
    ask(&proxy, 20).await;
    written.become_text(&config("least_loaded"));
    reload(&proxy);
    ask(&proxy, 20).await;
    until("nothing is in flight", async || {
        (proxy.sum("/in_flight").await == 0).then_some(())
    })
    .await;
    proxy.signal("TERM");
    assert!(proxy.ended().await.success());

    let mode = std::fs::metadata(&file.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shown = file.replayed();
    for told in [
        "4 streams; it ends because the process ended",
        "\ndefault: policy prequal, 2 streams\n  20 picks, all the same",
        "\ndefault: policy least_loaded, 2 streams",
        &format!("{}: ", one.address),
        &format!("{}: ", two.address),
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_configured_fields_are_recorded() {
    let (one, dead) = (Replica::echo("one").await, unused_address().await);
    let config = format!(
        "listen = \"127.0.0.1:0\"\npolicy = \"round_robin\"\nreplicas = [\"{}\", \"{}\"]\nprobe.transport = \"none\"\nretries.attempts_max = 2\n",
        one.address, dead
    );
    let (written, file) = (Written::new("named", &config), Recording::new("named"));
    let mut proxy = written.serve(&["--record", file.name(), "--record-header", "X-Tenant"]);
    let mut client = Client::connect(proxy.address).await;
    let long = "k".repeat(70);
    for (method, tenant) in [("POST", "acme"), ("POST", "acme"), ("PUT", long.as_str())] {
        let fields = format!("host: secret-host\r\nx-tenant: {tenant}\r\nx-other: secret-other");
        let head = format!("{method} /secret-path HTTP/1.1\r\n{fields}\r\ncontent-length: 5");
        client.send(&format!("{head}\r\n\r\nhello")).await;
        assert_eq!(client.answer().await.status, 200);
    }
    proxy.signal("TERM");
    assert!(proxy.ended().await.success());

    let bytes = std::fs::read(&file.0).unwrap();
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(holds("acme") && holds("x-tenant") && holds(&long[..64]));
    for secret in ["secret", "hello", &long[..65]] {
        assert!(!holds(secret), "{secret}");
    }
    let shown = file.replayed();
    for told in [
        "3 requests: POST 66.7 %, PUT 33.3 %; 2xx 100.0 %; bytes of bodies (p50, p99) 5, 5 in and",
        "    by x-tenant: 2 values\n      \"acme\": 2, p50",
        "all the same",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_process_records_into_a_new_file() {
    let one = Replica::echo("one").await;
    let config = format!(
        "listen = \"127.0.0.1:0\"\nreplicas = [\"{}\"]\nprobe.transport = \"none\"\n",
        one.address
    );
    let (written, file) = (Written::new("there", &config), Recording::new("there"));
    let beside = Recording(format!("{}.2", file.name()).into());
    std::fs::write(&file.0, "mine").unwrap();
    let mut proxy = written.serve(&["--record", file.name()]);
    ask(&proxy, 3).await;
    proxy.signal("TERM");
    assert!(proxy.ended().await.success());
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "mine");
    assert!(beside.replayed().contains("3 picks, all the same"));
}
