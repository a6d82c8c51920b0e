//! Whose certificates are believed: authorities from a file, or the system's.

use super::flaw::Flaw;
use super::pem::Pem;
use rustls::RootCertStore;
use std::path::{Path, PathBuf};

/// The authorities in a PEM file: each of its certificates.
///
/// # Errors
///
/// The file cannot be read, or a certificate in it cannot be used.
pub fn read_roots(file: &Path) -> Result<RootCertStore, Flaw> {
    let mut roots = RootCertStore::empty();
    for (line, certificate) in Pem::read(file)?.certificates()? {
        roots.add(certificate).map_err(|error| {
            Flaw::of_block(
                file,
                line,
                format!("is no certificate of an authority: {error}"),
            )
        })?;
    }
    Ok(roots)
}

/// The authorities that the system trusts. `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
///
/// # Errors
///
/// There is none.
pub fn system_roots() -> Result<RootCertStore, Flaw> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some stores hold certificates from before there were rules; those are of no use to anybody.
    let _ = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})"));
        return Err(Flaw::of_file(
            &PathBuf::from("the system's certificate authorities"),
            format!(
                "none was found{}; install the package ca-certificates, or name a file as ca",
                why.unwrap_or_default()
            ),
        ));
    }
    Ok(roots)
}
