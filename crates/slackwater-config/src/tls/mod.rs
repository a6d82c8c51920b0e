//! TLS as values, on rustls: certificates, keys and authorities from files, and the configurations
//! of listeners and clients.
//!
//! The contents of the files are a value, made again whenever they change. The data plane does the
//! handshakes and watches the files.
//!
//! | | file |
//! |---|---|
//! | what is wrong with a file | `flaw` |
//! | certificates, keys and authorities from PEM | `pem`, `identity`, `roots` |
//! | a certificate's dates | `validity` |
//! | which certificate for which name | `names` |
//! | listeners: from settings to rustls' configuration | `server` |
//! | replicas: from settings to rustls' configuration | `client` |

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
pub use roots::{read_roots, roots_of, system_roots};
pub use server::{
    ClientCertificates, HttpVersion, Resumption, Server, ServerTls, Sessions, TlsVersion,
};
pub use validity::Validity;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use std::sync::{Arc, LazyLock};

/// The cryptography: aws-lc-rs with its own safe defaults. As a server, the proxy follows the
/// client's preference in key exchange, so a client that prefers post-quantum key exchange
/// (X25519MLKEM768) gets it. To replicas it is X25519, unless they require the other.
pub fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(default_provider()));
    &PROVIDER
}
