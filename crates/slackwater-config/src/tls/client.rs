//! TLS to replicas: from settings and files to rustls' configuration.

use super::flaw::Flaw;
use super::identity::{Identity, IdentityFiles};
use super::provider;
use super::roots::{read_roots, system_roots};
use super::server::HttpVersion;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

/// Sessions kept for one replica, which is as many as can be resumed at once.
const SESSIONS_MAX: usize = 8;

/// Settings of TLS to replicas, before the files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// The trusted authorities; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The name that each replica's certificate must have; `None`: the replica's host in the
    /// configuration.
    pub server_name: Option<ServerName<'static>>,
    /// The client certificate for replicas that request one.
    pub identity: Option<IdentityFiles>,
    /// Whether a replica's certificate is verified.
    pub verify: bool,
}

impl Default for ClientTls {
    /// Trusts the system's authorities.
    fn default() -> Self {
        Self {
            ca: None,
            server_name: None,
            identity: None,
            verify: true,
        }
    }
}

/// The result of reading the files.
#[derive(Clone, Debug)]
pub struct Client {
    config: ClientConfig,
    /// The client's certificate, if there is one.
    pub identity: Option<Identity>,
    /// Whether replicas' certificates are verified.
    pub verifies: bool,
}

impl ClientTls {
    /// All files of the settings.
    pub fn files(&self) -> Vec<PathBuf> {
        let pair = self.identity.iter();
        pair.flat_map(|files| [files.certificate.clone(), files.key.clone()])
            .chain(self.ca.clone())
            .collect()
    }

    /// Reads the files, or the system's authorities if no file names others.
    ///
    /// # Errors
    ///
    /// Returns the first file that cannot be used.
    pub fn read(&self) -> Result<Client, Flaw> {
        let roots = || self.ca.as_deref().map_or_else(system_roots, read_roots);
        let roots = self.verify.then(roots).transpose()?;
        Client::new(
            roots,
            self.identity.as_ref().map(Identity::read).transpose()?,
        )
    }
}

impl Client {
    /// A client that trusts these authorities, or every server without them, and shows this
    /// certificate.
    ///
    /// # Errors
    ///
    /// Fails if the cryptography has no version of TLS.
    pub fn new(roots: Option<RootCertStore>, identity: Option<Identity>) -> Result<Self, Flaw> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Flaw::of_file(&PathBuf::from("TLS"), error.to_string()))?;
        let verifies = roots.is_some();
        let builder = match roots {
            Some(roots) => builder.with_root_certificates(roots),
            None => {
                (builder.dangerous()).with_custom_certificate_verifier(Arc::new(BelievesAnyone))
            }
        };
        let config = match &identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let shown = SingleCertAndKey::from(Arc::clone(&identity.certified));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        Ok(Self {
            config,
            identity,
            verifies,
        })
    }

    /// The rustls configuration, with room for the sessions of this many replicas. Replicas that
    /// share a name each need their own configuration, because one cannot resume another's
    /// sessions.
    pub fn with_sessions(&self, protocol: HttpVersion, replicas: usize) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX.saturating_mul(replicas));
        Arc::new(config)
    }
}

/// Accepts any certificate for any name. The peer must still own the certificate's key.
#[derive(Debug)]
struct BelievesAnyone;

impl ServerCertVerifier for BelievesAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        (provider().signature_verification_algorithms).supported_schemes()
    }
}
