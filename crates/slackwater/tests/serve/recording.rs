//! `--record`: what is in the file of a proxy with two workers, a reload and an end, and that it can be replayed.

use crate::clients::get;
use crate::proxy::{Proxy, slackwater, until};
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A file of the test's own, which is not there yet; gone at its end.
struct Recording(PathBuf);

impl Recording {
    fn new(name: &str) -> Self {
        let name = format!("slackwater-recording-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// What a replay says of it, which is to succeed.
    fn replayed(&self) -> String {
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
async fn each_worker_and_each_configuration_is_a_stream_that_can_be_replayed() {
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
        "default: policy prequal, 4 streams",
        "2 streams of another policy or other settings than the first",
        "40 picks, all the same",
        &format!("{}: ", one.address),
        &format!("{}: ", two.address),
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let file = Recording::new("there");
    std::fs::write(&file.0, "mine").unwrap();
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--replicas",
        "127.0.0.1:1",
    ];
    let more = ["--admin", "none", "--record", file.name()];
    let output = slackwater(&[&arguments[..], &more].concat())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("--record-force"), "{told}");
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "mine");
}
