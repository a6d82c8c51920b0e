//! Listeners: from settings and files to what rustls serves by.

use super::flaw::Flaw;
use super::identity::{Identity, IdentityFiles};
use super::names::Identities;
use super::provider;
use super::roots::read_roots;
use crate::table::named;
use rustls::ServerConfig;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
    WebPkiClientVerifier,
};
use rustls::version::{TLS12, TLS13};
use std::path::PathBuf;
use std::sync::Arc;

/// What a listener offers, before its files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// At least one; the first is shown to whoever asks for no known name.
    pub certificates: Vec<IdentityFiles>,
    /// Whose certificates clients may show; `None`: they are not asked.
    pub clients: Option<ClientCertificates>,
    /// The oldest version that is offered; default 1.2.
    pub version_min: TlsVersion,
    /// What is offered by ALPN, preferred first; at least one.
    pub protocols: Vec<HttpVersion>,
    /// Whether and how sessions are resumed.
    pub resumption: Resumption,
}

/// How clients prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities, in PEM.
    pub ca: PathBuf,
    /// Whether a client without a certificate is turned away.
    pub required: bool,
}

named! {
    /// The oldest version of TLS.
    pub enum TlsVersion {
        /// TLS 1.2.
        Tls12 = "1.2",
        /// TLS 1.3.
        Tls13 = "1.3",
    }
}

named! {
    /// A protocol as ALPN names it. RFC 7301
    pub enum HttpVersion {
        /// HTTP/2.
        Http2 = "h2",
        /// HTTP/1.1.
        Http1 = "http/1.1",
    }
}

impl HttpVersion {
    /// Its name in ALPN.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// How clients that come back save most of a handshake. Those that prove themselves by certificates
/// never do, whatever this says: a resumed session is not verified again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Whether the client keeps the session, under a key of ours that changes every six hours and
    /// lives for twelve.
    pub tickets: bool,
    /// Sessions kept here, for all workers together; 0 keeps none.
    pub sessions_max: usize,
}

/// What is made of a listener's files.
#[derive(Clone, Debug)]
pub struct Server {
    /// What rustls serves by.
    pub config: Arc<ServerConfig>,
    /// The certificates.
    pub identities: Arc<Identities>,
}

/// What survives a change of files, so that clients go on to resume.
#[derive(Clone)]
pub struct Sessions {
    tickets: Option<Arc<dyn ProducesTickets>>,
    kept: Arc<dyn StoresServerSessions>,
}

impl core::fmt::Debug for Sessions {
    /// Without the keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sessions")
            .field("tickets", &self.tickets.is_some())
            .finish_non_exhaustive()
    }
}

impl Sessions {
    /// None at all where clients show certificates: rustls takes a chain from a session as it was
    /// when it was verified, and hands out new tickets for it, so that one that has expired since
    /// would be good for ever.
    pub fn new(settings: &ServerTls) -> Result<Self, rustls::Error> {
        let resumption = match settings.clients {
            None => settings.resumption,
            Some(_) => Resumption {
                tickets: false,
                sessions_max: 0,
            },
        };
        let tickets = (resumption.tickets)
            .then(rustls::crypto::aws_lc_rs::Ticketer::new)
            .transpose()?;
        Ok(Self {
            tickets,
            kept: match resumption.sessions_max {
                0 => Arc::new(NoServerSessionStorage {}),
                sessions_max => ServerSessionMemoryCache::new(sessions_max),
            },
        })
    }
}

impl ServerTls {
    /// Every file that it is made of.
    pub fn files(&self) -> Vec<PathBuf> {
        let pairs = self.certificates.iter();
        pairs
            .flat_map(|files| [files.certificate.clone(), files.key.clone()])
            .chain(self.clients.iter().map(|clients| clients.ca.clone()))
            .collect()
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// The first file that cannot be used.
    pub fn read(&self, sessions: &Sessions) -> Result<Server, Flaw> {
        let all = self.certificates.iter().map(Identity::read);
        let identities = Arc::new(Identities::new(all.collect::<Result<_, _>>()?));
        let versions: &[_] = match self.version_min {
            TlsVersion::Tls12 => &[&TLS12, &TLS13],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let unfit = |error: &dyn core::fmt::Display| {
            let file = self.files().into_iter().next().unwrap_or_default();
            Flaw::of_file(
                &file,
                format!("cannot be served with these settings: {error}"),
            )
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider()))
            .with_protocol_versions(versions)
            .map_err(|error| unfit(&error))?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let roots = Arc::new(read_roots(&clients.ca)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider()));
                let verifier = if clients.required {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier.build().map_err(|error| {
                    Flaw::of_file(&clients.ca, format!("cannot verify clients: {error}"))
                })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let resolver = Arc::clone(&identities);
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols = (self.protocols.iter())
            .map(|protocol| protocol.alpn().to_vec())
            .collect();
        config.session_storage = Arc::clone(&sessions.kept);
        match &sessions.tickets {
            Some(tickets) => config.ticketer = Arc::clone(tickets),
            // TLS 1.3 resumes by tickets alone; without a cache behind them they would be for
            // nothing.
            None if !sessions.kept.can_cache() => config.send_tls13_tickets = 0,
            None => (),
        }
        Ok(Server {
            config: Arc::new(config),
            identities,
        })
    }
}
