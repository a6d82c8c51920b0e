//! Shared helpers for tests of sources and fleets.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test may panic"
)]

#[cfg(test)]
pub(crate) mod tls;

use super::{Fleet, Rules, Source};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use slackwater_config::GuardSettings;
pub use slackwater_config::testing::replica;
use slackwater_core::subset::Subset;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpSocket;
use tokio::sync::{mpsc, watch};

/// The replicas at `10.0.0.n:80`.
pub fn fleet(numbers: &[u8]) -> Fleet {
    Fleet::new(numbers.iter().map(|&n| replica(n)))
}

/// Rules that accept every list as a whole.
pub fn whole() -> Rules {
    Rules {
        guard: GuardSettings::default(),
        subset: Subset::random(0, 0),
    }
}

/// A bound socket that shares its port with others of its kind. One that never listens holds the
/// port for servers that come and go.
pub fn sharing(address: SocketAddr) -> TcpSocket {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.expect("a socket");
    socket.set_reuseport(true).expect("an option of sockets");
    socket.bind(address).expect("a free port");
    socket
}

/// A channel that holds these replicas at first.
pub fn holding(numbers: &[u8]) -> watch::Sender<Arc<Fleet>> {
    watch::Sender::new(Arc::new(fleet(numbers)))
}

/// A source that reports what the test sends it.
#[derive(Debug)]
pub struct FromChannel(pub mpsc::UnboundedReceiver<Result<Fleet, String>>);

impl Source for FromChannel {
    fn name(&self) -> String {
        "channel".to_owned()
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Fleet, String>> {
        async {
            match self.0.recv().await {
                Some(list) => list,
                None => core::future::pending().await,
            }
        }
        .boxed()
    }
}

/// A temporary directory, removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates an empty directory with `purpose` in its name.
    pub fn new(purpose: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("slackwater-{purpose}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// Path of a file of that name, whether it exists or not.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.path(name);
        fs::write(&file, text).expect("written");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
