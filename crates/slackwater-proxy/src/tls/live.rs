//! Values that follow their files: read at the start, and again when the files have changed.
//!
//! A new value is published only if all of its files are valid; until then the old one stays in
//! force. State beyond the files (sessions to resume) passes from the old value to the new.

use super::watch::{Turn, Watcher};
use core::hash::{Hash, Hasher};
use slackwater_config::Fault;
use slackwater_config::tls::Flaw;
use slackwater_config::tls::Identity;
use slackwater_config::tls::{Client, ClientTls};
use slackwater_config::tls::{Server, ServerTls, Sessions};
use std::hash::DefaultHasher;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// The files of one value, and how to read it again.
pub(crate) struct Followed {
    /// Purpose of the value, for logs.
    pub(crate) purpose: String,
    pub(super) files: Vec<PathBuf>,
    /// Fingerprint of the files' contents at the last look.
    fingerprint: u64,
    /// Why those contents cannot be used; `None` if they are in force.
    flaw: Option<Flaw>,
    reread: Box<dyn FnMut() -> Result<Vec<Identity>, Flaw> + Send>,
    /// The identities in force.
    pub(crate) identities: Vec<Identity>,
}

impl core::fmt::Debug for Followed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Followed")
            .field("purpose", &self.purpose)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Collects values to be followed.
#[derive(Debug, Default)]
pub struct Secrets(Vec<Followed>);

impl Secrets {
    /// Reads the TLS settings of a listener; `purpose` is its name for the log.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be used.
    pub fn follow_server(
        &mut self,
        settings: &ServerTls,
        purpose: &str,
    ) -> Result<watch::Receiver<Server>, Fault> {
        self.add(follow_server(settings.clone(), purpose.to_owned()))
    }

    /// Reads the TLS settings for connections to replicas; `purpose` is the name for the log.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be used.
    pub fn follow_client(
        &mut self,
        settings: &ClientTls,
        purpose: &str,
    ) -> Result<watch::Receiver<Client>, Fault> {
        self.add(follow_client(settings.clone(), purpose.to_owned()))
    }

    fn add<T>(
        &mut self,
        read: Result<(watch::Receiver<T>, Followed), Flaw>,
    ) -> Result<watch::Receiver<T>, Fault> {
        let (receiver, followed) = read.map_err(|flaw| Fault::usage(flaw.to_string()))?;
        self.0.push(followed);
        Ok(receiver)
    }

    /// Returns the values, for an existing watcher.
    pub(crate) fn into_followed(self) -> Vec<Followed> {
        self.0
    }

    /// Follows the files from now on; `None` if there are none.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a thread.
    pub fn watch(self) -> Result<Option<Watcher>, Fault> {
        let watcher = self.new_watcher()?;
        if let Some(watcher) = &watcher {
            watcher.turn_to(Turn {
                kept: Vec::new(),
                new: self.0,
            });
        }
        Ok(watcher)
    }

    /// Makes a watcher that follows nothing yet; `None` if there is nothing to follow.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot provide a thread.
    pub(crate) fn new_watcher(&self) -> Result<Option<Watcher>, Fault> {
        let is_idle = self.0.iter().all(|followed| followed.files.is_empty());
        (!is_idle)
            .then(Watcher::start)
            .transpose()
            .map_err(|error| Fault::runtime(format!("cannot watch certificates: {error}")))
    }
}

/// Result of a look at the files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The contents are unchanged.
    Same,
    /// The new value is in force.
    Renewed,
    /// The contents changed and cannot be used; the old value stays in force.
    Kept(Flaw),
}

impl Followed {
    /// Reads the files if they changed since the last look, or if they could not be used then: the
    /// cause may have been something else, such as a lack of descriptors. The same error is
    /// returned once.
    pub(crate) fn look(&mut self) -> Look {
        let fingerprint = fingerprint(&self.files);
        let is_same = fingerprint == self.fingerprint;
        if is_same && self.flaw.is_none() {
            return Look::Same;
        }
        self.fingerprint = fingerprint;
        match (self.reread)() {
            Ok(identities) => {
                self.identities = identities;
                self.flaw = None;
                Look::Renewed
            }
            Err(flaw) if is_same && self.flaw.as_ref() == Some(&flaw) => Look::Same,
            Err(flaw) => {
                self.flaw = Some(flaw.clone());
                Look::Kept(flaw)
            }
        }
    }

    /// Whether the files could not be used at the last look.
    pub(super) const fn has_flaw(&self) -> bool {
        self.flaw.is_some()
    }
}

/// Makes a listener's value, which follows its files.
///
/// # Errors
///
/// Fails if a file cannot be used.
pub(super) fn follow_server(
    settings: ServerTls,
    purpose: String,
) -> Result<(watch::Receiver<Server>, Followed), Flaw> {
    let sessions = Sessions::new(&settings)
        .map_err(|error| Flaw::of_file(Path::new("TLS"), format!("no key for tickets: {error}")))?;
    let read = move |settings: &ServerTls| {
        let server = settings.read(&sessions)?;
        let identities = server.identities.all().to_vec();
        Ok((server, identities))
    };
    follow(purpose, settings.files(), settings, read)
}

/// Makes the value for connections to replicas, which follows its files.
///
/// # Errors
///
/// Fails if a file cannot be used.
fn follow_client(
    settings: ClientTls,
    purpose: String,
) -> Result<(watch::Receiver<Client>, Followed), Flaw> {
    let read = |settings: &ClientTls| {
        let client = settings.read()?;
        let identities = Vec::from_iter(client.identity.clone());
        Ok((client, identities))
    };
    follow(purpose, settings.files(), settings, read)
}

/// Follows `files`: `read` makes the value now and after each change.
pub(super) fn follow<S, T>(
    purpose: String,
    files: Vec<PathBuf>,
    settings: S,
    mut read: impl FnMut(&S) -> Result<(T, Vec<Identity>), Flaw> + Send + 'static,
) -> Result<(watch::Receiver<T>, Followed), Flaw>
where
    S: Send + 'static,
    T: Send + Sync + 'static,
{
    // Computed before the files are read, so that a change in between is detected at the next look.
    let fingerprint = fingerprint(&files);
    let (value, identities) = read(&settings)?;
    let (sender, receiver) = watch::channel(value);
    let reread = move || {
        let (value, identities) = read(&settings)?;
        sender.send_replace(value);
        Ok(identities)
    };
    let followed = Followed {
        purpose,
        files,
        fingerprint,
        flaw: None,
        reread: Box::new(reread),
        identities,
    };
    Ok((receiver, followed))
}

/// Hashes the contents of the files in order, including errors of files that cannot be read.
fn fingerprint(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        slackwater_config::toml_reader::read_bounded(file).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use slackwater_config::tls::testing::{Authority, Folder};
    use slackwater_config::tls::{ClientCertificates, HttpVersion, Resumption, TlsVersion};
    use std::sync::Arc;

    fn settings(folder: &Folder, authority: &Authority) -> ServerTls {
        ServerTls {
            certificates: vec![authority.files(folder, "a", &["a.test"])],
            clients: Some(ClientCertificates {
                ca: folder.write("ca.pem", &authority.pem()),
                required: true,
            }),
            version_min: TlsVersion::Tls12,
            protocols: vec![HttpVersion::Http2, HttpVersion::Http1],
            resumption: Resumption {
                tickets: true,
                sessions_max: 16,
            },
        }
    }

    fn names(receiver: &watch::Receiver<Server>) -> Vec<String> {
        receiver.borrow().identities.all()[0].names.clone()
    }

    #[test]
    fn a_valid_new_file_is_used_and_an_invalid_one_keeps_the_old() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let (server, mut followed) =
            follow_server(settings(&folder, &authority), "here".to_owned()).expect("well-formed");
        assert_eq!(followed.look(), Look::Same);

        let key = folder.path().join("a.key");
        let old_key = std::fs::read_to_string(&key).expect("a file");
        authority.files(&folder, "a", &["b.test"]);
        let new_key = std::fs::read_to_string(&key).expect("a file");
        folder.write("a.key", &old_key);
        let Look::Kept(flaw) = followed.look() else {
            panic!("the key is not the certificate's");
        };
        assert!(
            flaw.to_string()
                .contains("is not the key of the certificate"),
            "{flaw}"
        );
        assert!(flaw.to_string().contains("a.key"), "{flaw}");
        assert_eq!(names(&server), ["a.test"]);
        assert_eq!(followed.look(), Look::Same, "returned once");

        folder.write("a.key", &new_key);
        assert_eq!(followed.look(), Look::Renewed);
        assert_eq!(names(&server), ["b.test"]);
        assert_eq!(followed.identities[0].names, ["b.test"]);

        std::fs::remove_file(&key).expect("a file");
        assert!(matches!(followed.look(), Look::Kept(_)));
        assert_eq!(names(&server), ["b.test"]);
        folder.write("a.key", &new_key);
        assert_eq!(followed.look(), Look::Renewed, "as good as before");
    }

    #[test]
    fn unusable_files_are_read_again_even_if_unchanged() {
        let folder = Folder::new();
        let files = vec![folder.write("a", "one")];
        let is_bad = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_bad);
        let read = move |(): &()| {
            if asked.load(Relaxed) {
                Err(Flaw::of_file(Path::new("a"), "no descriptors"))
            } else {
                Ok(((), Vec::new()))
            }
        };
        let (_value, mut followed) =
            follow("here".to_owned(), files, (), read).expect("good at first");
        folder.write("a", "two");
        is_bad.store(true, Relaxed);
        assert!(matches!(followed.look(), Look::Kept(_)));
        assert_eq!(followed.look(), Look::Same, "returned once");
        is_bad.store(false, Relaxed);
        assert_eq!(followed.look(), Look::Renewed);
        assert_eq!(followed.look(), Look::Same);
    }

    #[test]
    fn sessions_outlive_a_certificate() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let settings = ServerTls {
            clients: None,
            ..settings(&folder, &authority)
        };
        let (server, mut followed) =
            follow_server(settings, "here".to_owned()).expect("well-formed");
        let sealed = |text: &[u8]| {
            server
                .borrow()
                .config
                .ticketer
                .encrypt(text)
                .expect("sealed")
        };
        let opened = |ticket: &[u8]| server.borrow().config.ticketer.decrypt(ticket);
        let storage = || Arc::clone(&server.borrow().config.session_storage);
        let (ticket, kept) = (sealed(b"session"), storage());

        authority.files(&folder, "a", &["b.test"]);
        assert_eq!(followed.look(), Look::Renewed);
        assert_eq!(opened(&ticket).as_deref(), Some(&b"session"[..]));
        assert!(Arc::ptr_eq(&kept, &storage()));
    }

    #[test]
    fn clients_with_certificates_have_no_sessions() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let (server, _) =
            follow_server(settings(&folder, &authority), "here".to_owned()).expect("well-formed");
        let config = Arc::clone(&server.borrow().config);
        assert!(!config.ticketer.enabled() && !config.session_storage.can_cache());
        assert_eq!(config.send_tls13_tickets, 0);
    }
}
