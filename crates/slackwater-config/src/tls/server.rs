//! TLS of listeners: from settings and files to rustls' configuration.

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

/// Settings of a listener's TLS, before its files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// At least one. A client that requests no known name gets the first.
    pub certificates: Vec<IdentityFiles>,
    /// The authorities of clients' certificates; `None`: no certificate is requested.
    pub clients: Option<ClientCertificates>,
    /// The oldest version that is offered; default 1.2.
    pub version_min: TlsVersion,
    /// The protocols offered by ALPN, preferred first; at least one.
    pub protocols: Vec<HttpVersion>,
    /// Whether and how sessions are resumed.
    pub resumption: Resumption,
}

/// Verification of clients' certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities, in PEM.
    pub ca: PathBuf,
    /// Whether a client without a certificate is rejected.
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
    /// The protocol's name in ALPN.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// How returning clients skip most of a handshake. Clients with certificates never do, whatever the
/// settings: a resumed session is not verified again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Whether clients keep sessions, in tickets under our key, which changes every six hours and
    /// lives for twelve.
    pub tickets: bool,
    /// Sessions kept here, over all workers; 0 keeps none.
    pub sessions_max: usize,
}

/// The result of reading a listener's files.
#[derive(Clone, Debug)]
pub struct Server {
    /// The rustls configuration.
    pub config: Arc<ServerConfig>,
    /// The certificates.
    pub identities: Arc<Identities>,
}

/// Sessions, which survive a change of the files, so that clients can still resume.
#[derive(Clone)]
pub struct Sessions {
    tickets: Option<Arc<dyn ProducesTickets>>,
    kept: Arc<dyn StoresServerSessions>,
}

impl core::fmt::Debug for Sessions {
    /// Omits the keys.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sessions")
            .field("tickets", &self.tickets.is_some())
            .finish_non_exhaustive()
    }
}

impl Sessions {
    /// Keeps no sessions if clients have certificates. On resumption, rustls uses the chain as it
    /// was verified originally and issues new tickets for it, so an expired one would stay valid
    /// forever.
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
    /// All files of the settings.
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
    /// Returns the first file that cannot be used.
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
            // TLS 1.3 resumes only by tickets; without a session cache, tickets are useless.
            None if !sessions.kept.can_cache() => config.send_tls13_tickets = 0,
            None => (),
        }
        Ok(Server {
            config: Arc::new(config),
            identities,
        })
    }
}
