//! A thread that detects changed certificate files, by polling with `file_watch`.

use super::live::{Followed, Look};
use core::time::Duration;
use slackwater_discovery::file_watch::{FileWatch, Pace};
use slackwater_telemetry::facts::CertificateFacts;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Interval between checks for certificates that expire soon.
const ENDS_INTERVAL: Duration = Duration::from_hours(1);

/// A message to the thread: it follows these values from now on, looks at them, and returns the
/// errors.
type Word = (Turn, Sender<Vec<String>>);

/// A change of the followed values.
#[derive(Debug, Default)]
pub struct Turn {
    /// Followed values that are kept: their old purpose and their new one. All others are dropped.
    pub(crate) kept: Vec<(String, String)>,
    /// Values that are followed for the first time.
    pub(crate) new: Vec<Followed>,
}

/// Follows files until dropped.
#[derive(Debug)]
pub struct Watcher {
    /// `None` ends the thread.
    words: Option<UnboundedSender<Word>>,
    facts: Arc<Mutex<Vec<CertificateFacts>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread, which follows nothing yet.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a thread.
    pub(crate) fn start() -> io::Result<Self> {
        Self::start_with(Vec::new(), Pace::default())
    }

    fn start_with(followed: Vec<Followed>, pace: Pace) -> io::Result<Self> {
        let (words, heard) = unbounded_channel();
        let facts = Arc::<Mutex<_>>::default();
        let mut watching = Watching {
            followed,
            watch: FileWatch::with_pace(Vec::new(), pace),
            pace,
            facts: Arc::clone(&facts),
            logged_days: Vec::new(),
        };
        // Done before this returns, so that all later changes are detected.
        watching.watch_files();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("certificates".to_owned())
            .spawn(move || {
                runtime.block_on(watching.run(heard));
                // A file system that hangs is not waited for.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            words: Some(words),
            facts,
            thread: Some(thread),
        })
    }

    /// Follows these values from now on, and looks at all of their files. Returns errors of files
    /// that have changed and cannot be used; these are also logged.
    pub(crate) fn turn_to(&self, turn: Turn) -> Vec<String> {
        let (answer, answered) = mpsc::channel();
        if let Some(words) = &self.words {
            let _ = words.send((turn, answer));
        }
        answered.recv().unwrap_or_default()
    }

    /// The certificates in force.
    pub fn facts(&self) -> Vec<CertificateFacts> {
        let facts = self.facts.lock();
        facts.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.words.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Watching {
    followed: Vec<Followed>,
    watch: FileWatch,
    pace: Pace,
    facts: Arc<Mutex<Vec<CertificateFacts>>>,
    /// For each certificate whose expiry was logged, how many days were left then.
    logged_days: Vec<(PathBuf, i64)>,
}

impl Watching {
    async fn run(mut self, mut words: UnboundedReceiver<Word>) {
        loop {
            tokio::select! {
                () = self.watch.changed() => drop(self.look()),
                word = words.recv() => match word {
                    Some((turn, answer)) => {
                        self.turn_to(turn);
                        let _ = answer.send(self.watch_files());
                    }
                    None => return,
                },
                () = tokio::time::sleep(ENDS_INTERVAL) => self.remark_on_ends(),
            }
        }
    }

    /// Starts watching all files, and looks at them.
    fn watch_files(&mut self) -> Vec<String> {
        let files = self.followed.iter().flat_map(|it| it.files.clone());
        self.watch = FileWatch::with_pace(files.collect(), self.pace);
        // They may have changed since they were read.
        self.look()
    }

    fn turn_to(&mut self, turn: Turn) {
        self.followed.retain_mut(|followed| {
            let mut kept = turn.kept.iter();
            let kept = kept.find(|(was_for, _)| *was_for == followed.purpose);
            if let Some((_, is_for)) = kept {
                followed.purpose.clone_from(is_for);
            }
            kept.is_some()
        });
        self.followed.extend(turn.new);
    }

    fn look(&mut self) -> Vec<String> {
        let mut flaws = Vec::new();
        for followed in &mut self.followed {
            match followed.look() {
                Look::Same => (),
                Look::Renewed => {
                    tracing::info!(of = followed.purpose, "certificates or keys reloaded");
                }
                Look::Kept(flaw) => {
                    tracing::error!(
                        of = followed.purpose,
                        "new certificates or keys rejected, the old ones stay: {flaw}"
                    );
                    flaws.push(flaw.to_string());
                }
            }
        }
        if self.followed.iter().any(Followed::has_flaw) {
            self.watch.retry(true);
        }
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        *known = facts(&self.followed);
        drop(known);
        self.remark_on_ends();
        flaws
    }

    /// Logs once a day which certificates expire soon, or have expired.
    fn remark_on_ends(&mut self) {
        let now = SystemTime::now();
        let identities = self
            .followed
            .iter()
            .flat_map(|followed| &followed.identities);
        let mut logged = Vec::new();
        for identity in identities {
            let Some((remark, validity)) = identity.remark(now).zip(identity.validity) else {
                continue;
            };
            let days = (identity.file.clone(), validity.days_left(now));
            if !self.logged_days.contains(&days) {
                tracing::warn!("{}: {remark}", identity.file.display());
            }
            logged.push(days);
        }
        self.logged_days = logged;
    }
}

fn facts(followed: &[Followed]) -> Vec<CertificateFacts> {
    let each = followed.iter().flat_map(|followed| {
        (followed.identities.iter()).map(|identity| CertificateFacts {
            purpose: followed.purpose.clone(),
            file: identity.file.display().to_string(),
            names: identity.names.clone(),
            expires_s: identity.validity.map(|validity| validity.not_after_s),
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::live::{follow, follow_server};
    use super::*;
    use slackwater_config::tls::testing::{Authority, Folder};
    use slackwater_config::tls::{Flaw, IdentityFiles};
    use slackwater_config::tls::{HttpVersion, Resumption, Server, ServerTls, TlsVersion};
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use tokio::sync::watch;

    /// No wait takes this long unless the test fails.
    const PATIENCE: Duration = Duration::from_mins(1);
    const NEVER: Pace = Pace {
        period: Duration::from_hours(1),
        settled: Duration::ZERO,
        retry: Duration::from_hours(1),
    };
    const OFTEN: Pace = Pace {
        period: Duration::from_millis(10),
        settled: Duration::from_millis(10),
        retry: Duration::from_millis(10),
    };

    fn settings(files: IdentityFiles) -> ServerTls {
        ServerTls {
            certificates: vec![files],
            clients: None,
            version_min: TlsVersion::Tls12,
            protocols: vec![HttpVersion::Http1],
            resumption: Resumption {
                tickets: false,
                sessions_max: 0,
            },
        }
    }

    /// Waits until the value is so.
    fn becomes<T>(value: &mut watch::Receiver<T>, is_so: impl FnMut(&T) -> bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let waiting = async {
            tokio::time::timeout(PATIENCE, value.wait_for(is_so))
                .await
                .map(|found| found.is_ok())
        };
        assert_eq!(runtime.block_on(waiting), Ok(true), "in time");
    }

    /// Whether the certificate is for `name`.
    fn is_for(name: &str) -> impl Fn(&Server) -> bool {
        move |server| server.identities.all()[0].names == [name]
    }

    #[test]
    fn rewritten_files_are_detected() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let files = authority.files(&folder, "a", &["a.test"]);
        let (mut server, followed) =
            follow_server(settings(files), "here".to_owned()).expect("well-formed");
        let _watcher = Watcher::start_with(vec![followed], OFTEN).expect("a thread");
        authority.files(&folder, "a", &["b.test"]);
        becomes(&mut server, is_for("b.test"));
        // As certbot does: a new file is renamed over the old one.
        let files = authority.files(&folder, "next", &["c.test"]);
        std::fs::rename(files.key, folder.path().join("a.key")).expect("a file");
        std::fs::rename(files.certificate, folder.path().join("a.pem")).expect("a file");
        becomes(&mut server, is_for("c.test"));
    }

    #[test]
    fn changed_links_are_detected() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let (old, new) = (Folder::new(), Folder::new());
        authority.files(&old, "tls", &["a.test"]);
        authority.files(&new, "tls", &["b.test"]);
        // As Kubernetes does: a link to a directory is swapped by renaming another link over it.
        let data = folder.path().join("..data");
        symlink(old.path(), &data).expect("a link");
        for name in ["tls.pem", "tls.key"] {
            symlink(Path::new("..data").join(name), folder.path().join(name)).expect("a link");
        }
        let files = IdentityFiles {
            certificate: folder.path().join("tls.pem"),
            key: folder.path().join("tls.key"),
        };
        let (mut server, followed) =
            follow_server(settings(files), "here".to_owned()).expect("well-formed");
        let _watcher = Watcher::start_with(vec![followed], OFTEN).expect("a thread");
        let swapped = folder.path().join("..data_tmp");
        symlink(new.path(), &swapped).expect("a link");
        std::fs::rename(&swapped, &data).expect("a link");
        becomes(&mut server, is_for("b.test"));
        // The new destination is watched, too.
        authority.files(&new, "tls", &["c.test"]);
        becomes(&mut server, is_for("c.test"));
    }

    #[test]
    fn a_changed_link_to_a_directory_is_detected() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let (old, new) = (Folder::new(), Folder::new());
        authority.files(&old, "tls", &["a.test"]);
        authority.files(&new, "tls", &["b.test"]);
        let current = folder.path().join("current");
        symlink(old.path(), &current).expect("a link");
        let files = IdentityFiles {
            certificate: current.join("tls.pem"),
            key: current.join("tls.key"),
        };
        let (mut server, followed) =
            follow_server(settings(files), "here".to_owned()).expect("well-formed");
        let _watcher = Watcher::start_with(vec![followed], OFTEN).expect("a thread");
        let swapped = folder.path().join("next");
        symlink(new.path(), &swapped).expect("a link");
        std::fs::rename(&swapped, &current).expect("a link");
        becomes(&mut server, is_for("b.test"));
    }

    #[test]
    fn files_that_cannot_be_used_once_are_read_again() {
        let folder = Folder::new();
        let file = folder.write("a", "one");
        // The second read fails, for a reason outside of the file.
        let mut reads = 0;
        let read = move |(): &()| {
            reads += 1;
            if reads == 2 {
                return Err(Flaw::of_file(Path::new("a"), "no descriptors"));
            }
            Ok((reads, Vec::new()))
        };
        let (mut value, followed) =
            follow("here".to_owned(), vec![file], (), read).expect("good at first");
        let _watcher = Watcher::start_with(vec![followed], OFTEN).expect("a thread");
        folder.write("a", "two");
        becomes(&mut value, |reads| *reads == 3);
    }

    #[test]
    fn check_on_demand_returns_errors_and_keeps_the_old_state() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let files = authority.files(&folder, "a", &["a.test"]);
        let certificate = files.certificate.clone();
        let (server, followed) =
            follow_server(settings(files), "here".to_owned()).expect("well-formed");
        let watcher = Watcher::start_with(vec![followed], NEVER).expect("a thread");
        let before = watcher.facts();
        assert_eq!(before.len(), 1);
        assert_eq!(
            (before[0].purpose.as_str(), Path::new(&before[0].file)),
            ("here", certificate.as_path())
        );
        assert!(before[0].expires_s.is_some());

        folder.write("a.key", "no key");
        let stays = || Turn {
            kept: vec![("here".to_owned(), "here".to_owned())],
            new: Vec::new(),
        };
        let flaws = watcher.turn_to(stays());
        assert_eq!(flaws.len(), 1);
        assert!(
            flaws[0].contains("a.key: holds no private key"),
            "{flaws:?}"
        );
        assert_eq!(watcher.facts(), before);
        authority.files(&folder, "a", &["b.test"]);
        assert_eq!(watcher.turn_to(stays()), Vec::<String>::new());
        assert_eq!(server.borrow().identities.all()[0].names, ["b.test"]);
    }

    #[test]
    fn kept_files_are_still_watched_after_a_reload() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let follow = |name: &str, purpose: &str| {
            let files = authority.files(&folder, name, &["old.test"]);
            follow_server(settings(files), purpose.to_owned()).expect("well-formed")
        };
        let [(stays, a), (goes, b), (comes, c)] =
            [follow("a", "one"), follow("b", "two"), follow("c", "three")];
        let watcher = Watcher::start_with(vec![a, b], NEVER).expect("a thread");
        for name in ["a", "b", "c"] {
            authority.files(&folder, name, &["new.test"]);
        }
        let kept = vec![("one".to_owned(), "first".to_owned())];
        let flaws = watcher.turn_to(Turn { kept, new: vec![c] });
        assert_eq!(flaws, Vec::<String>::new());
        let names =
            [&stays, &goes, &comes].map(|it| it.borrow().identities.all()[0].names[0].clone());
        assert_eq!(names, ["new.test", "old.test", "new.test"]);
        let facts = watcher.facts();
        let purposes: Vec<_> = facts.iter().map(|fact| fact.purpose.as_str()).collect();
        assert_eq!(purposes, ["first", "three"]);
    }
}
