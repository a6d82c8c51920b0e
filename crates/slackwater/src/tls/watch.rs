//! Who notices that files have changed: a thread that looks at them from time to time, as `file_watch` has it.

use super::live::{Followed, IsWanted, Look};
use crate::admin::CertificateFacts;
use crate::file_watch::{FileWatch, Pace};
use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Between two looks at which certificates end soon.
const ENDS_INTERVAL: Duration = Duration::from_hours(1);

/// What was last found, and of what.
type Facts = Arc<Mutex<Vec<(IsWanted, CertificateFacts)>>>;

/// What the thread is told.
#[derive(Debug)]
enum Word {
    /// Somebody wants a look now, and to hear what came of it.
    Look(Sender<Vec<String>>),
    /// These are to be followed, too.
    Follow(Vec<Followed>),
}

/// Follows files until dropped; each as long as anybody goes by what is made of it.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// `None` ends the thread.
    words: Option<UnboundedSender<Word>>,
    facts: Facts,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to follow these values' files.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub(crate) fn start(followed: Vec<Followed>) -> io::Result<Self> {
        Self::start_with(followed, Pace::default())
    }

    fn start_with(followed: Vec<Followed>, pace: Pace) -> io::Result<Self> {
        let (words, heard) = unbounded_channel();
        let facts = Facts::default();
        let mut watching = Watching {
            followed,
            watch: FileWatch::with_pace(Vec::new(), pace),
            pace,
            facts: Arc::clone(&facts),
            told_days: Vec::new(),
        };
        // Before it returns: whatever changes from now on is noticed.
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

    /// Looks at all files now. Says what is wrong with those that changed and cannot be used; these changes are logged,
    /// too.
    pub(crate) fn look_now(&self) -> Vec<String> {
        let (answer, answered) = mpsc::channel();
        self.tell(Word::Look(answer));
        answered.recv().unwrap_or_default()
    }

    /// Follows these, too.
    pub(super) fn follow(&self, followed: Vec<Followed>) {
        self.tell(Word::Follow(followed));
    }

    fn tell(&self, word: Word) {
        if let Some(words) = &self.words {
            let _ = words.send(word);
        }
    }

    /// The certificates in force.
    pub(crate) fn facts(&self) -> Vec<CertificateFacts> {
        let facts = self.facts.lock();
        let facts = facts.unwrap_or_else(PoisonError::into_inner);
        let wanted = facts.iter().filter(|(is_wanted, _)| is_wanted.ask());
        wanted.map(|(_, facts)| facts.clone()).collect()
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
    facts: Facts,
    /// For each certificate of which it was told that it ends, how many days were left then.
    told_days: Vec<(PathBuf, i64)>,
}

impl Watching {
    async fn run(mut self, mut words: UnboundedReceiver<Word>) {
        loop {
            tokio::select! {
                () = self.watch.changed() => drop(self.look()),
                word = words.recv() => match word {
                    Some(Word::Look(answer)) => {
                        let _ = answer.send(self.look());
                    }
                    Some(Word::Follow(more)) => {
                        self.followed.extend(more);
                        self.watch_files();
                    }
                    None => return,
                },
                () = tokio::time::sleep(ENDS_INTERVAL) => self.remark_on_ends(),
            }
        }
    }

    /// Notices from now on what becomes of all files.
    fn watch_files(&mut self) {
        let files = self.followed.iter().flat_map(|it| it.files.clone());
        self.watch = FileWatch::with_pace(files.collect(), self.pace);
        // Between the reading of the files and now they may have changed.
        self.look();
    }

    fn look(&mut self) -> Vec<String> {
        self.followed.retain(|it| it.is_wanted.ask());
        let mut flaws = Vec::new();
        for followed in &mut self.followed {
            match followed.look() {
                Look::Same => (),
                Look::Renewed => {
                    tracing::info!(
                        of = followed.purpose,
                        "new certificates or keys are in force"
                    );
                }
                Look::Kept(flaw) => {
                    tracing::error!(
                        of = followed.purpose,
                        "new certificates or keys cannot be used, the old ones stay in force: {flaw}"
                    );
                    flaws.push(flaw.to_string());
                }
            }
        }
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        *known = facts(&self.followed);
        drop(known);
        self.remark_on_ends();
        flaws
    }

    /// Logs once a day which certificates end soon, or have ended.
    fn remark_on_ends(&mut self) {
        let now = SystemTime::now();
        let identities = self
            .followed
            .iter()
            .flat_map(|followed| &followed.identities);
        let mut told = Vec::new();
        for identity in identities {
            let Some((remark, validity)) = identity.remark(now).zip(identity.validity) else {
                continue;
            };
            let days = (identity.file.clone(), validity.days_left(now));
            if !self.told_days.contains(&days) {
                tracing::warn!("{}: {remark}", identity.file.display());
            }
            told.push(days);
        }
        self.told_days = told;
    }
}

fn facts(followed: &[Followed]) -> Vec<(IsWanted, CertificateFacts)> {
    let each = followed.iter().flat_map(|followed| {
        (followed.identities.iter()).map(|identity| {
            let facts = CertificateFacts {
                purpose: followed.purpose.clone(),
                file: identity.file.display().to_string(),
                expires_s: identity.validity.map(|validity| validity.not_after_s),
            };
            (followed.is_wanted.clone(), facts)
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::identity::IdentityFiles;
    use super::super::live::follow_server;
    use super::super::server::{HttpVersion, Resumption, Server, ServerTls, TlsVersion};
    use super::super::testing::{Authority, Folder};
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use tokio::sync::watch;

    /// No wait takes this long unless something is wrong.
    const PATIENCE: Duration = Duration::from_secs(20);
    const NEVER: Pace = Pace {
        period: Duration::from_hours(1),
        settled: Duration::ZERO,
    };
    const OFTEN: Pace = Pace {
        period: Duration::from_millis(10),
        settled: Duration::from_millis(10),
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

    /// Waits until the certificate is for `name`.
    fn becomes(server: &mut watch::Receiver<Server>, name: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let is_new = |server: &Server| server.identities.all()[0].names == [name];
        let waiting = async {
            tokio::time::timeout(PATIENCE, server.wait_for(is_new))
                .await
                .map(|found| found.is_ok())
        };
        assert_eq!(runtime.block_on(waiting), Ok(true), "{name} in time");
    }

    #[test]
    fn files_written_anew_are_noticed() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let files = authority.files(&folder, "a", &["a.test"]);
        let (mut server, followed) =
            follow_server(settings(files), "here".to_owned()).expect("well-formed");
        let _watcher = Watcher::start_with(vec![followed], OFTEN).expect("a thread");
        authority.files(&folder, "a", &["b.test"]);
        becomes(&mut server, "b.test");
        // As certbot does: a new file takes the name.
        let files = authority.files(&folder, "next", &["c.test"]);
        std::fs::rename(files.key, folder.path().join("a.key")).expect("a file");
        std::fs::rename(files.certificate, folder.path().join("a.pem")).expect("a file");
        becomes(&mut server, "c.test");
    }

    #[test]
    fn links_that_come_to_point_elsewhere_are_noticed() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let (old, new) = (Folder::new(), Folder::new());
        authority.files(&old, "tls", &["a.test"]);
        authority.files(&new, "tls", &["b.test"]);
        // As Kubernetes does: a link to a directory, swapped by renaming another one over it.
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
        becomes(&mut server, "b.test");
        // Where they point to now is watched, too.
        authority.files(&new, "tls", &["c.test"]);
        becomes(&mut server, "c.test");
    }

    #[test]
    fn a_directory_that_is_a_link_may_come_to_point_elsewhere() {
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
        becomes(&mut server, "b.test");
    }

    #[test]
    fn a_look_on_demand_tells_what_is_wrong_and_knows_what_is_in_force() {
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
        let flaws = watcher.look_now();
        assert_eq!(flaws.len(), 1);
        assert!(
            flaws[0].contains("a.key: holds no private key"),
            "{flaws:?}"
        );
        assert_eq!(watcher.facts(), before);
        authority.files(&folder, "a", &["b.test"]);
        assert_eq!(watcher.look_now(), Vec::<String>::new());
        assert_eq!(server.borrow().identities.all()[0].names, ["b.test"]);
    }
}
