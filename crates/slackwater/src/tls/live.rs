//! Values that follow their files: read once at the start, and again when told that the files have changed.
//!
//! A new value is published only when all of its files are good; until then the old one stays in force. What a value is
//! made of beyond its files (sessions to resume) passes from the old one to the new.

use super::client::{Client, ClientTls};
use super::flaw::Flaw;
use super::identity::Identity;
use super::server::{Server, ServerTls, Sessions};
use super::watch::Watcher;
use crate::fault::Fault;
use core::hash::{Hash, Hasher};
use std::hash::DefaultHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Whether anybody still goes by a value.
#[derive(Clone)]
pub(super) struct IsWanted(Arc<dyn Fn() -> bool + Send + Sync>);

impl IsWanted {
    pub(super) fn ask(&self) -> bool {
        (self.0)()
    }
}

impl core::fmt::Debug for IsWanted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("IsWanted").field(&self.ask()).finish()
    }
}

/// One value's files, and how to make it anew.
pub(crate) struct Followed {
    /// What it is for, as logs call it.
    pub(crate) purpose: String,
    pub(super) files: Vec<PathBuf>,
    /// Of the files' contents when they were last looked at.
    fingerprint: u64,
    reread: Box<dyn FnMut() -> Result<Vec<Identity>, Flaw> + Send>,
    /// Whether anybody still goes by the value.
    pub(super) is_wanted: IsWanted,
    /// As they are in force.
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

/// Collects what is to be followed.
#[derive(Debug, Default)]
pub(crate) struct Secrets(Vec<Followed>);

impl Secrets {
    /// Reads what a listener is served by; `purpose` is what the log calls it.
    ///
    /// # Errors
    ///
    /// A file that cannot be used.
    pub(crate) fn follow_server(
        &mut self,
        settings: &ServerTls,
        purpose: &str,
    ) -> Result<watch::Receiver<Server>, Fault> {
        self.add(follow_server(settings.clone(), purpose.to_owned()))
    }

    /// Reads what replicas are spoken to by, likewise.
    ///
    /// # Errors
    ///
    /// A file that cannot be used.
    pub(crate) fn follow_client(
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

    /// Follows them from now on, by `watcher` if there is one; `None` if there is nothing to follow.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub(crate) fn watch(
        self,
        watcher: Option<&Arc<Watcher>>,
    ) -> Result<Option<Arc<Watcher>>, Fault> {
        if let Some(watcher) = watcher {
            watcher.follow(self.0);
            return Ok(Some(Arc::clone(watcher)));
        }
        if self.0.iter().all(|followed| followed.files.is_empty()) {
            return Ok(None);
        }
        let watcher = Watcher::start(self.0).map(Arc::new);
        let watcher = watcher
            .map_err(|error| Fault::runtime(format!("cannot watch certificates: {error}")))?;
        Ok(Some(watcher))
    }
}

/// What a look at the files found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// They hold what they held.
    Same,
    /// The new value is in force.
    Renewed,
    /// They changed, and cannot be used; the old value stays in force.
    Kept(Flaw),
}

impl Followed {
    /// Reads the files if they changed since the last look, or if they were bad then.
    pub(crate) fn look(&mut self) -> Look {
        let fingerprint = fingerprint(&self.files);
        if fingerprint == self.fingerprint {
            return Look::Same;
        }
        self.fingerprint = fingerprint;
        match (self.reread)() {
            Ok(identities) => {
                self.identities = identities;
                Look::Renewed
            }
            Err(flaw) => Look::Kept(flaw),
        }
    }
}

/// A listener's value, which follows its files.
///
/// # Errors
///
/// A file that cannot be used.
pub(super) fn follow_server(
    settings: ServerTls,
    purpose: String,
) -> Result<(watch::Receiver<Server>, Followed), Flaw> {
    let ca = settings.clients.as_ref().map(|clients| clients.ca.clone());
    // Those of now, and the fingerprint of the authorities that they are for.
    let mut sessions: Option<(Sessions, u64)> = None;
    let read = move |settings: &ServerTls| {
        let ca_now = fingerprint(ca.as_slice());
        let kept = sessions.as_ref().filter(|(_, ca)| *ca == ca_now);
        let next = match kept {
            Some((sessions, _)) => sessions.clone(),
            None => Sessions::new(settings.resumption).map_err(|error| {
                Flaw::of_file(Path::new("TLS"), format!("no key for tickets: {error}"))
            })?,
        };
        let server = settings.read(&next)?;
        sessions = Some((next, ca_now));
        let identities = server.identities.all().to_vec();
        Ok((server, identities))
    };
    follow(purpose, settings.files(), settings, read)
}

/// What replicas are spoken to by, which follows its files.
///
/// # Errors
///
/// A file that cannot be used.
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

/// What `read` makes of `files`, now and whenever they have changed.
fn follow<S, T>(
    purpose: String,
    files: Vec<PathBuf>,
    settings: S,
    mut read: impl FnMut(&S) -> Result<(T, Vec<Identity>), Flaw> + Send + 'static,
) -> Result<(watch::Receiver<T>, Followed), Flaw>
where
    S: Send + 'static,
    T: Send + Sync + 'static,
{
    // Before the files are read: what changes in between is found at the next look.
    let fingerprint = fingerprint(&files);
    let (value, identities) = read(&settings)?;
    let (sender, receiver) = watch::channel(value);
    let asked = sender.clone();
    let reread = move || {
        let (value, identities) = read(&settings)?;
        sender.send_replace(value);
        Ok(identities)
    };
    let followed = Followed {
        purpose,
        files,
        fingerprint,
        reread: Box::new(reread),
        is_wanted: IsWanted(Arc::new(move || !asked.is_closed())),
        identities,
    };
    Ok((receiver, followed))
}

/// Of the contents of files, in their order. Also says which of them cannot be read.
fn fingerprint(files: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        crate::toml_reader::read_bounded(file).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::server::{ClientCertificates, HttpVersion, Resumption, TlsVersion};
    use super::super::testing::{Authority, Folder};
    use super::*;

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
    fn a_good_new_file_is_taken_and_a_bad_one_leaves_the_old_in_force() {
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
        assert_eq!(followed.look(), Look::Same, "told once");

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
    fn sessions_outlive_a_certificate_but_not_the_authorities_of_clients() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let (server, mut followed) =
            follow_server(settings(&folder, &authority), "here".to_owned()).expect("well-formed");
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

        folder.write("ca.pem", &Authority::new().pem());
        assert_eq!(followed.look(), Look::Renewed);
        assert_eq!(opened(&ticket), None);
        assert!(!Arc::ptr_eq(&kept, &storage()));
    }
}
