//! Trusted authorities, from a file or from the system.

use super::flaw::Flaw;
use super::pem::Pem;
use rustls::RootCertStore;
use std::path::{Path, PathBuf};

/// Reads the authorities in a PEM file: all of its certificates.
///
/// # Errors
///
/// Fails if the file cannot be read, or if a certificate in it cannot be used.
pub fn read_roots(file: &Path) -> Result<RootCertStore, Flaw> {
    roots_in(file, &Pem::read(file)?)
}

/// Like [`read_roots`], with a text from a place in `file`.
///
/// # Errors
///
/// Fails if a certificate in the text cannot be used.
pub fn roots_of(file: &Path, text: &[u8]) -> Result<RootCertStore, Flaw> {
    roots_in(file, &Pem::parse(file, text)?)
}

fn roots_in(file: &Path, pem: &Pem<'_>) -> Result<RootCertStore, Flaw> {
    let mut roots = RootCertStore::empty();
    for (line, certificate) in pem.certificates()? {
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

/// Reads the system's trusted authorities. `SSL_CERT_FILE` and `SSL_CERT_DIR` replace them.
///
/// # Errors
///
/// Fails if there is none.
pub fn system_roots() -> Result<RootCertStore, Flaw> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some stores contain malformed certificates from before today's rules. They are skipped.
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
