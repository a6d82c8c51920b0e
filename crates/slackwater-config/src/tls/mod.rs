//! TLS as values, by rustls: certificates, keys and authorities out of files, and what listeners
//! and clients are made of.
//!
//! What is read from files is a value, made anew whenever they change. Handshakes, and the files
//! that are followed, are the data plane's business.
//!
//! | | file |
//! |---|---|
//! | what is wrong with a file | `flaw` |
//! | certificates, keys and authorities out of PEM | `pem`, `identity`, `roots` |
//! | from when until when a certificate is valid | `validity` |
//! | which certificate is for which name | `names` |
//! | listeners: from settings to rustls' configuration | `server` |
//! | replicas: likewise | `client` |

mod client;
mod flaw;
mod identity;
mod names;
mod pem;
mod roots;
mod server;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod validity;

pub use client::{Client, ClientTls};
pub use flaw::Flaw;
pub use identity::{Identity, IdentityFiles};
pub use names::Identities;
pub use roots::{read_roots, system_roots};
pub use server::{
    ClientCertificates, HttpVersion, Resumption, Server, ServerTls, Sessions, TlsVersion,
};
pub use validity::Validity;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use std::sync::{Arc, LazyLock};

/// The cryptography: aws-lc-rs with what it thinks safe. Key exchange goes by the client's
/// preference where the proxy is the server, so whoever prefers one that withstands quantum
/// computers (X25519MLKEM768) gets it; to replicas it is X25519 unless they want the other.
pub fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(default_provider()));
    &PROVIDER
}
