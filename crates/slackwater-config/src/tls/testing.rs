//! For tests: an authority, and files of what it has issued.

#![expect(
    missing_docs,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::new_without_default,
    reason = "helpers of tests, behind a feature of their own"
)]

use super::identity::{Identity, IdentityFiles};
use core::sync::atomic::{AtomicU32, Ordering};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
    SignatureAlgorithm,
};
use std::path::{Path, PathBuf};

/// A test's own directory, removed at its end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("slackwater-tls-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).expect("a file");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Issues certificates.
#[expect(missing_debug_implementations, reason = "it holds a key")]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate; returns it with its key.
    pub fn issue(&self, names: &[&str], kind: &'static SignatureAlgorithm) -> (String, String) {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate_for(kind).expect("a key");
        let params = CertificateParams::new(names).expect("names");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    pub fn files(&self, folder: &Folder, name: &str, names: &[&str]) -> IdentityFiles {
        let (certificate, key) = self.issue(names, &PKCS_ECDSA_P256_SHA256);
        IdentityFiles {
            certificate: folder.write(&format!("{name}.pem"), &certificate),
            key: folder.write(&format!("{name}.key"), &key),
        }
    }

    pub fn identity(&self, names: &[&str]) -> Identity {
        self.identity_with(names, &PKCS_ECDSA_P256_SHA256)
    }

    pub fn identity_with(&self, names: &[&str], kind: &'static SignatureAlgorithm) -> Identity {
        let folder = Folder::new();
        let (certificate, key) = self.issue(names, kind);
        let files = IdentityFiles {
            certificate: folder.write("a.pem", &certificate),
            key: folder.write("a.key", &key),
        };
        Identity::read(&files).expect("well-formed")
    }
}
