//! Certificates of the TLS listener: an authority of the run's own, and what it issues one after the other into the same
//! two files.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::fs;
use std::path::{Path, PathBuf};

/// The name in every certificate.
pub(super) const HOST: &str = "chaos.test";

/// The authority, and where its certificates are put.
pub(super) struct Certificates {
    authority: CertifiedIssuer<'static, KeyPair>,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl core::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Certificates")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Certificates {
    /// Makes the authority. Nothing is issued yet.
    pub(super) fn new(folder: &Path) -> Result<Self, String> {
        let authority = || -> Result<_, rcgen::Error> {
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate()?)
        };
        Ok(Self {
            authority: authority().map_err(|error| format!("an authority: {error}"))?,
            certificate: folder.join("site.pem"),
            key: folder.join("site.key"),
        })
    }

    /// What clients have to trust.
    pub(super) fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        (roots.add(self.authority.der().clone())).map_err(|error| format!("roots: {error}"))?;
        Ok(roots)
    }

    /// Puts a new certificate and a new key in place of the old ones, each file by a rename as tools do that renew them;
    /// for a moment the two do not belong together. Returns the certificate.
    pub(super) fn replace(&self) -> Result<CertificateDer<'static>, String> {
        let issue = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            let params = CertificateParams::new(vec![HOST.to_owned()])?;
            Ok((params.signed_by(&key, &self.authority)?, key))
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
    fn each_pair_is_another_one_in_the_same_files() {
        let folder = Folder::new("certificates", false).unwrap();
        let certificates = Certificates::new(&folder.path).unwrap();
        let files =
            || [&certificates.certificate, &certificates.key].map(|file| fs::read(file).unwrap());
        let first = (certificates.replace().unwrap(), files());
        let second = (certificates.replace().unwrap(), files());
        assert_ne!(first.0, second.0);
        assert!(first.1[0] != second.1[0] && first.1[1] != second.1[1]);
    }
}
