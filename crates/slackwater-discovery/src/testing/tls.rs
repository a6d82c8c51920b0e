//! A TLS server that verifies its clients.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use slackwater_config::tls::provider;
use slackwater_config::tls::testing::Authority;
use std::sync::Arc;

/// A server that wants certificates of this authority, and has one for this machine.
pub(crate) fn server_config(authority: &Authority) -> ServerConfig {
    let (certificate, key) =
        authority.issue(&["localhost", "127.0.0.1"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(der(&authority.pem())).expect("an authority");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider()));
    let config = ServerConfig::builder_with_provider(Arc::clone(provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(
            vec![der(&certificate)],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key"),
        );
    config.expect("a pair")
}
