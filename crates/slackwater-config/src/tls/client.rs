//! Replicas: from settings and files to what rustls speaks to them by.

use super::flaw::Flaw;
use super::identity::{Identity, IdentityFiles};
use super::provider;
use super::roots::{read_roots, system_roots};
use super::server::HttpVersion;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

/// Sessions that are kept for one replica: as many as may be resumed at once.
const SESSIONS_MAX: usize = 8;

/// How replicas are spoken to, before the files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// Whose certificates are believed; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The name that each replica's certificate must be for; `None`: the host that the
    /// configuration names it by.
    pub server_name: Option<ServerName<'static>>,
    /// What the proxy shows of itself to those that ask.
    pub identity: Option<IdentityFiles>,
    /// Whether a replica must prove who it is.
    pub verify: bool,
}

impl Default for ClientTls {
    /// Whoever the system trusts to say so is believed to be the replica.
    fn default() -> Self {
        Self {
            ca: None,
            server_name: None,
            identity: None,
            verify: true,
        }
    }
}

/// What is made of the files.
#[derive(Clone, Debug)]
pub struct Client {
    config: ClientConfig,
    /// What the client proves itself by, if by anything.
    pub identity: Option<Identity>,
    /// Whether replicas must prove who they are.
    pub verifies: bool,
}

impl ClientTls {
    /// Every file that it is made of.
    pub fn files(&self) -> Vec<PathBuf> {
        let pair = self.identity.iter();
        pair.flat_map(|files| [files.certificate.clone(), files.key.clone()])
            .chain(self.ca.clone())
            .collect()
    }

    /// Reads the files, and the system's authorities where no file names others.
    ///
    /// # Errors
    ///
    /// The first file that cannot be used.
    pub fn read(&self) -> Result<Client, Flaw> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Flaw::of_file(&PathBuf::from("TLS"), error.to_string()))?;
        let builder = if self.verify {
            let roots = self.ca.as_deref().map_or_else(system_roots, read_roots)?;
            builder.with_root_certificates(roots)
        } else {
            (builder.dangerous()).with_custom_certificate_verifier(Arc::new(BelievesAnyone))
        };
        let identity = self.identity.as_ref().map(Identity::read).transpose()?;
        let config = match &identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let shown = SingleCertAndKey::from(Arc::clone(&identity.certified));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        Ok(Client {
            config,
            identity,
            verifies: self.verify,
        })
    }
}

impl Client {
    /// What replicas are spoken to by, with room for the sessions of so many. Where they may go by
    /// one name, each has to have its own: another one could make nothing of its sessions.
    pub fn with_sessions(&self, protocol: HttpVersion, replicas: usize) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX.saturating_mul(replicas));
        Arc::new(config)
    }
}

/// Takes any certificate for anybody's. Whoever shows it must still own its key.
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
