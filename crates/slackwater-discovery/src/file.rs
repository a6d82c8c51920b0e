//! A fleet in a file that another program keeps up to date: a script, a template, a mounted map.
//!
//! The file is accepted or rejected as a whole. A file that is missing, empty or invalid changes
//! nothing, and is reported once.

use super::{Fleet, Source};
use crate::file_watch::FileWatch;
use core::num::NonZeroU16;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use slackwater_config::tls::ClientTls;
use slackwater_config::toml_reader::Mistakes;
use slackwater_config::{OwnAddresses, read_fleet_file};
use std::path::PathBuf;
use std::time::SystemTime;

/// Reads a file each time it changes, and again after a while if it could not be used.
#[derive(Debug)]
pub struct FileSource {
    file: PathBuf,
    probe_port: Option<NonZeroU16>,
    tls: Option<ClientTls>,
    own: OwnAddresses,
    watch: FileWatch,
    opened_at: SystemTime,
}

impl FileSource {
    /// Reads the file for the first time. `probe_port` is for replicas without a probe address of
    /// their own, `tls` is how they are connected to, and addresses in `own` are left out. May
    /// block.
    ///
    /// # Errors
    ///
    /// Returns every mistake in the file, so that a start fails with the reason and not later with
    /// requests that have no replica.
    pub fn open(
        file: PathBuf,
        probe_port: Option<NonZeroU16>,
        tls: Option<ClientTls>,
        own: OwnAddresses,
    ) -> Result<(Self, Fleet), Mistakes> {
        // The watch starts first, so that no change during the first read is missed.
        let watch = FileWatch::new(vec![file.clone()]);
        let fleet = Fleet::new(read_fleet_file(&file, probe_port, tls.as_ref(), &own)?);
        let source = Self {
            file,
            probe_port,
            tls,
            own,
            watch,
            opened_at: SystemTime::now(),
        };
        Ok((source, fleet))
    }

    async fn read(&mut self) -> Result<Fleet, String> {
        self.watch.changed().await;
        let (file, probe_port, tls) = (self.file.clone(), self.probe_port, self.tls.clone());
        let own = self.own.clone();
        let reading = tokio::task::spawn_blocking(move || {
            read_fleet_file(&file, probe_port, tls.as_ref(), &own)
        });
        let why = match reading.await {
            Ok(Ok(replicas)) => return Ok(Fleet::new(replicas)),
            Ok(Err(mistakes)) => mistakes.in_a_line(),
            Err(_) => format!("{} could not be read", self.file.display()),
        };
        self.watch.retry(true);
        Err(why)
    }
}

impl Source for FileSource {
    fn name(&self) -> String {
        format!("file {}", self.file.display())
    }

    fn opened_at(&self) -> Option<SystemTime> {
        Some(self.opened_at)
    }

    /// The first call waits for a change, too.
    fn next(&mut self) -> BoxFuture<'_, Result<Fleet, String>> {
        self.read().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Discovery;
    use crate::testing::{Folder, whole};
    use std::fs;
    use std::sync::Arc;
    use tokio::sync::watch;

    struct Rig {
        folder: Folder,
        discovery: Discovery,
        fleets: watch::Receiver<Arc<Fleet>>,
    }

    fn own() -> OwnAddresses {
        OwnAddresses::new([([127, 0, 0, 1], 8080).into()])
    }

    fn rig(name: &str, text: &str) -> Rig {
        let folder = Folder::new("fleet");
        let file = folder.write(name, text);
        let (source, first) =
            FileSource::open(file, NonZeroU16::new(9000), None, own()).expect("valid");
        let fleets = watch::Sender::default();
        let discovery = Discovery::follow("web", source, whole(), Some(first.into()), fleets);
        let fleets = discovery.fleets().subscribe();
        Rig {
            folder,
            discovery,
            fleets,
        }
    }

    impl Rig {
        fn names(&self) -> Vec<String> {
            let fleet = self.discovery.fleet();
            let replicas = fleet.replicas().iter();
            replicas.map(|replica| replica.name.clone()).collect()
        }

        /// As careful programs do it: write a new file, then rename it.
        fn replace(&self, name: &str, text: &str) {
            let new = self.folder.write("new", text);
            fs::rename(new, self.folder.path(name)).expect("renamed");
        }

        async fn failure(&self, count: u64) -> String {
            loop {
                let state = self.discovery.state();
                if state.failures == count {
                    return state.failure.unwrap_or_default();
                }
                tokio::time::sleep(core::time::Duration::from_millis(50)).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changed_file_changes_the_fleet() {
        for (name, first, second) in [
            (
                "fleet.toml",
                "replicas = [\"10.0.0.1:80\"]\n",
                "[[replicas]]\naddress = \"10.0.0.2:80\"\nprobe = \"10.0.0.2:81\"\n",
            ),
            (
                "fleet.json",
                "[\"10.0.0.1:80\"]",
                "{\"replicas\": [{\"address\": \"10.0.0.2:80\", \"probe\": 81}]}",
            ),
            (
                "fleet.yaml",
                "- 10.0.0.1:80\n",
                "replicas:\n- address: 10.0.0.2:80\n  probe: 10.0.0.2:81\n",
            ),
        ] {
            let mut rig = rig(name, first);
            assert_eq!(rig.names(), ["10.0.0.1:80"], "{name}");
            let probes = rig.discovery.fleet().replicas()[0].probe_address;
            assert_eq!(probes.port(), 9000, "{name}: the port for all");
            rig.replace(name, second);
            rig.fleets.changed().await.expect("followed");
            assert_eq!(rig.names(), ["10.0.0.2:80"], "{name}");
            let probes = rig.discovery.fleet().replicas()[0].probe_address;
            assert_eq!(probes.port(), 81, "{name}: its own");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_file_counts_as_reported() {
        let rig = rig("fleet.yaml", "- 10.0.0.1:80\n");
        let soon = core::time::Duration::from_millis(1);
        let spoken = tokio::time::timeout(soon, rig.discovery.spoken()).await;
        assert!(spoken.is_ok(), "a start waits for no change of the file");
        assert!(rig.discovery.state().answered_at.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn invalid_file_is_reported_and_the_old_fleet_kept() {
        let mut rig = rig("fleet.yaml", "- 10.0.0.1:80\n- 10.0.0.2:80\n");
        for (count, (text, expected)) in [
            (
                "- 10.0.0.3:80\n- 10.0.0.4\n",
                "fleet.yaml:2:3: replicas[1]: found \"10.0.0.4\", expected a port",
            ),
            (
                "- 10.0.0.3:80\n- address: 10.0.0.4:80\n  wieght: 2\n",
                "fleet.yaml:3:3: replicas[1].wieght: unknown key",
            ),
            (
                "- 10.0.0.3:80\n- 10.0.0.3:80\n",
                "10.0.0.3:80 is replicas[0] again, expected each replica once",
            ),
            (
                "- 10.0.0.3:80\n- 127.0.0.1:8080\n",
                "fleet.yaml:2:3: replicas[1]: 127.0.0.1:8080 is this process itself",
            ),
            ("replicas: []\n", "found no replica"),
            ("- [\n", "fleet.yaml:1:3: syntax: "),
            ("", "has no key replicas"),
        ]
        .into_iter()
        .enumerate()
        {
            rig.replace("fleet.yaml", text);
            let failure = rig.failure(count as u64 + 1).await;
            assert!(failure.contains(expected), "{failure}");
            assert!(!failure.contains('\n'), "{failure}");
            assert_eq!(rig.names(), ["10.0.0.1:80", "10.0.0.2:80"], "as before");
        }
        fs::remove_file(rig.folder.path("fleet.yaml")).expect("removed");
        let failure = rig.failure(8).await;
        assert!(failure.contains("there is no such file"), "{failure}");

        rig.replace("fleet.yaml", "- 10.0.0.3:80\n");
        rig.fleets.changed().await.expect("followed");
        assert_eq!(rig.names(), ["10.0.0.3:80"]);
        assert_eq!(rig.discovery.state().failure, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_cannot_be_read_once_is_read_again() {
        let folder = Folder::new("retry");
        let file = folder.write("fleet.json", "[\"10.0.0.1:80\"]");
        let (mut source, _) = FileSource::open(file, None, None, own()).expect("valid");
        // The cause of the failure is not in the file that is watched.
        source.file = folder.path("other.json");
        folder.write("fleet.json", "[\"10.0.0.2:80\", \"10.0.0.3:80\"]");
        let why = source.next().await.expect_err("unreadable");
        assert!(why.contains("there is no such file"), "{why}");
        folder.write("other.json", "[\"10.0.0.2:80\", \"10.0.0.3:80\"]");
        let minute = core::time::Duration::from_mins(1);
        let next = tokio::time::timeout(minute, source.next());
        let fleet = next.await.expect("read again").expect("valid");
        assert_eq!(fleet.len(), 2);
    }

    #[test]
    fn an_invalid_file_fails_the_start() {
        let folder = Folder::new("begin");
        for (name, text, expected) in [
            (
                "fleet.json",
                "[\"10.0.0.1\"]",
                "fleet.json:1:2: replicas[0]: ",
            ),
            (
                "fleet.txt",
                "10.0.0.1:80",
                "expected a name that ends in .toml, .json, .yaml or .yml",
            ),
        ] {
            let file = folder.write(name, text);
            let mistakes = FileSource::open(file, None, None, own())
                .expect_err("mistaken")
                .to_string();
            assert!(mistakes.contains(expected), "{mistakes}");
        }
        let missing =
            FileSource::open(folder.path("none.json"), None, None, own()).expect_err("missing");
        assert!(missing.to_string().contains("there is no such file"));
    }
}
