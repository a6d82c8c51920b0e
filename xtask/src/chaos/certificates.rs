//! Certificates: the run's own authority, and the certificates that it issues for a name, each
//! replacing the previous one in the same two files.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// An authority that issues certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// The authority's own certificate.
    pub(crate) file: PathBuf,
}

impl core::fmt::Debug for Authority {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Authority")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Authority {
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        let issuer = || -> Result<_, rcgen::Error> {
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate()?)
        };
        let issuer = issuer().map_err(|error| format!("an authority: {error}"))?;
        let file = folder.join("authority.pem");
        put(&file, &issuer.pem())?;
        Ok(Self { issuer, file })
    }

    /// The authority as trusted roots, for clients.
    pub(crate) fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        (roots.add(self.issuer.der().clone())).map_err(|error| format!("roots: {error}"))?;
        Ok(roots)
    }
}

/// The certificates for one name, and their files.
#[derive(Debug)]
pub(crate) struct Certificates {
    authority: Rc<Authority>,
    pub(crate) host: &'static str,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Issues a first certificate.
    pub(crate) fn new(
        authority: &Rc<Authority>,
        folder: &Path,
        host: &'static str,
    ) -> Result<Self, String> {
        let certificates = Self {
            authority: Rc::clone(authority),
            host,
            certificate: folder.join(format!("{host}.pem")),
            key: folder.join(format!("{host}.key")),
        };
        certificates.replace()?;
        Ok(certificates)
    }

    /// Replaces certificate and key by new ones, each file by a rename as renewal tools do. For a
    /// moment the two files do not match. Returns the certificate.
    pub(crate) fn replace(&self) -> Result<CertificateDer<'static>, String> {
        let issue = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            let params = CertificateParams::new(vec![self.host.to_owned()])?;
            Ok((params.signed_by(&key, &self.authority.issuer)?, key))
        };
        let (certificate, key) = issue().map_err(|error| format!("a certificate: {error}"))?;
        put(&self.key, &key.serialize_pem())?;
        put(&self.certificate, &certificate.pem())?;
        Ok(certificate.der().clone())
    }
}

fn put(file: &Path, text: &str) -> Result<(), String> {
    let new = file.with_extension("new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, file))
        .map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn renewed_certificates_are_written_to_the_same_files() {
        let folder = Folder::new("certificates", false).unwrap();
        let authority = Rc::new(Authority::new(&folder.path).unwrap());
        let certificates = Certificates::new(&authority, &folder.path, "a.test").unwrap();
        let files =
            || [&certificates.certificate, &certificates.key].map(|file| fs::read(file).unwrap());
        let first = (certificates.replace().unwrap(), files());
        let second = (certificates.replace().unwrap(), files());
        assert_ne!(first.0, second.0);
        assert!(first.1[0] != second.1[0] && first.1[1] != second.1[1]);
    }
}
