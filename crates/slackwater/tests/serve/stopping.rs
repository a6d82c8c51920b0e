//! An end that others stand in the way of: a successor that does not come up, a log that takes no lines.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;
use core::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tokio::net::TcpStream;

/// A program that goes when this is dropped.
struct Program(PathBuf);

impl Program {
    /// A link to the program under test.
    fn link(name: &str) -> Self {
        let name = format!("slackwater-stopping-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        symlink(env!("CARGO_BIN_EXE_slackwater"), &path).unwrap();
        Self(path)
    }

    /// Puts another one in its place, which does nothing for a long time.
    fn hangs(&self) {
        std::fs::remove_file(&self.0).unwrap();
        std::fs::write(&self.0, "#!/bin/sh\nexec sleep 1000\n").unwrap();
        std::fs::set_permissions(&self.0, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn start(&self, replica: SocketAddr) -> Proxy {
        let words = format!(
            "serve --probe none --policy round_robin --workers 1 --admin 127.0.0.1:0 --listen 127.0.0.1:0 \
             --replicas {replica}"
        );
        let mut command = Command::new(&self.0);
        command.args(words.split(' ')).env_remove("RUST_LOG");
        Proxy::spawn_command(&mut command)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn sigterm_gives_up_an_upgrade_that_is_under_way() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        // Until the proxy leaves.
        connection.more().await;
    })
    .await;
    let program = Program::link("upgrade");
    let mut proxy = program.start(replica.address);
    let mut busy = Client::connect(proxy.address).await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    program.hangs();
    proxy.signal("USR2");
    proxy.log_line("starting a new process");
    proxy.signal("TERM");
    proxy.log_line("given up");
    until("nobody listens", async || {
        let connected = TcpStream::connect(proxy.address).await;
        connected.is_err().then_some(())
    })
    .await;
    assert!(proxy.is_running(), "it finishes what runs");
    proxy.signal("TERM");
    assert!(busy.rest().await.is_empty());
    assert_eq!(proxy.ended().await.code(), Some(0));
}

#[tokio::test]
async fn an_access_log_that_takes_no_lines_does_not_keep_it_from_ending() {
    let replica = Replica::echo("r").await;
    let words = format!(
        "serve --probe none --policy round_robin --workers 1 --admin 127.0.0.1:0 --listen 127.0.0.1:0 \
         --replicas {} --access-log stdout",
        replica.address
    );
    let mut command = crate::proxy::slackwater(&words.split(' ').collect::<Vec<_>>());
    // Nobody reads it: it takes 64 KiB.
    let mut proxy = Proxy::spawn_command(command.stdout(Stdio::piped()));
    let path = format!("/{}", "x".repeat(8_000));
    for _ in 0..20 {
        assert_eq!(get(proxy.address, &path).await.status, 200);
    }
    proxy.signal("TERM");
    proxy.log_line("the access log takes no lines");
    assert_eq!(proxy.ended().await.code(), Some(0));
}
