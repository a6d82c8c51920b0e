//! TLS, by rustls: certificates and keys from files, and what is made of them for listeners and for replicas.
//!
//! What is read from files is a value, made anew whenever they change and swapped between handshakes; a new one that is
//! bad is told and leaves the old one in force. Nothing here runs on a request's way: a connection pays for its handshake,
//! and from then on the stream is bytes.
//!
//! | | file |
//! |---|---|
//! | what is wrong with a file | `flaw` |
//! | certificates, keys and authorities out of PEM | `pem`, `identity`, `roots` |
//! | from when until when a certificate is valid | `validity` |
//! | which certificate is for which name | `names` |
//! | listeners: from settings to rustls' configuration | `server` |
//! | replicas: likewise, and their handshakes | `client`, `connector` |
//! | HTTP probes | `probes` |
//! | one listener's handshakes: deadline, bound, counts | `handshake` |
//! | values that follow their files | `live`, `watch` |

mod client;
mod connector;
mod flaw;
mod handshake;
mod identity;
mod live;
mod names;
mod pem;
mod probes;
mod roots;
mod server;
mod spoken;
#[cfg(test)]
mod testing;
mod validity;
mod watch;

pub(crate) use client::{Client, ClientTls};
pub(crate) use connector::Connector;
pub(crate) use handshake::{HandshakeCounts, Handshakes, Secured};
pub(crate) use identity::{Identity, IdentityFiles};
pub(crate) use live::Secrets;
pub(crate) use probes::ProbeConnector;
pub(crate) use roots::{read_roots, system_roots};
pub(crate) use server::{
    ClientCertificates, HttpVersion, Resumption, Server, ServerTls, TlsVersion,
};
pub(crate) use watch::{Turn, Watcher};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use std::sync::{Arc, LazyLock};

/// The cryptography: aws-lc-rs with what it thinks safe. Key exchange goes by the client's preference where the proxy is
/// the server, so whoever prefers one that withstands quantum computers (X25519MLKEM768) gets it; to replicas it is
/// X25519 unless they want the other.
fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(default_provider()));
    &PROVIDER
}
