//! A certificate with its chain and its private key, for either side of TLS.

use super::flaw::Flaw;
use super::pem::Pem;
use super::provider;
use super::validity::Validity;
use core::fmt;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use webpki::EndEntityCert;

/// A certificate ends soon within two weeks.
const SOON_S: i64 = 14 * 86_400;

/// The files of an identity. Both may name the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate, followed by the chain to the root, in PEM.
    pub certificate: PathBuf,
    /// The private key in PEM: PKCS#8, SEC1 or PKCS#1, without a passphrase.
    pub key: PathBuf,
}

/// A certificate, its key, and the certificate's names and dates.
#[derive(Clone)]
pub struct Identity {
    /// The chain and the key for rustls.
    pub certified: Arc<CertifiedKey>,
    /// The certificate's DNS names, in lower case.
    pub names: Vec<String>,
    /// The certificate's dates; `None` if they cannot be read.
    pub validity: Option<Validity>,
    /// The file of the certificate.
    pub file: PathBuf,
}

impl fmt::Debug for Identity {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("names", &self.names)
            .field("validity", &self.validity)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Returns a remark if the certificate has expired, is not yet valid, or expires soon. Soon is
    /// within two weeks, or within a third of its lifetime if that is shorter, because renewal
    /// normally happens earlier.
    pub fn remark(&self, now: SystemTime) -> Option<String> {
        let validity = self.validity?;
        let days = validity.days_left(now);
        if validity.is_over(now) {
            return Some(
                "the certificate has expired, and clients will refuse it; renew it".to_owned(),
            );
        }
        if validity.is_future(now) {
            return Some(
                "the certificate is not valid yet, and clients will refuse it; look at the clock"
                    .to_owned(),
            );
        }
        let life_s = validity.not_after_s - validity.not_before_s;
        let left_s = validity.left_s(now);
        let days_told = if days == 1 {
            "1 day".to_owned()
        } else {
            format!("{days} days")
        };
        (left_s < SOON_S.min(life_s / 3))
            .then(|| format!("the certificate expires in {days_told}; renew it"))
    }

    /// Reads both files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or is not PEM, or if the key cannot be used or is not the
    /// certificate's.
    pub fn read(files: &IdentityFiles) -> Result<Self, Flaw> {
        let IdentityFiles { certificate, key } = files;
        Self::in_pem(certificate, &Pem::read(certificate)?, key, &Pem::read(key)?)
    }

    /// Like [`read`](Self::read), with the texts of both and the files that messages name.
    ///
    /// # Errors
    ///
    /// Fails as [`read`](Self::read) does.
    pub fn of(certificate: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<Self, Flaw> {
        let [chain, secret] = [certificate, key].map(|(file, text)| Pem::parse(file, text));
        Self::in_pem(certificate.0, &chain?, key.0, &secret?)
    }

    fn in_pem(
        certificate: &Path,
        chain: &Pem<'_>,
        key: &Path,
        secret: &Pem<'_>,
    ) -> Result<Self, Flaw> {
        let chain = chain.certificates()?;
        let (key_line, key_der) = secret.key()?;
        let key_flaw = |why: &str| Flaw::of_block(key, key_line, why);
        let signing = provider()
            .key_provider
            .load_private_key(key_der)
            .map_err(|_| {
                key_flaw("is no private key that can be used, expected RSA (2048 bits or more), ECDSA P-256, P-384 or P-521, or Ed25519")
            })?;
        let (names, validity) = read_leaf(certificate, &chain)?;
        let leaf_line = chain.first().map_or(1, |(line, _)| *line);
        let chain = chain.into_iter().map(|(_, der)| der).collect();
        let certified = CertifiedKey::new(chain, signing);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => (),
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(key_flaw(&format!(
                    "is not the key of the certificate in {}",
                    certificate.display()
                )));
            }
            Err(error) => {
                return Err(Flaw::of_block(
                    certificate,
                    leaf_line,
                    format!("cannot be used: {error}"),
                ));
            }
        }
        Ok(Self {
            certified: Arc::new(certified),
            names,
            validity,
            file: certificate.to_owned(),
        })
    }
}

/// The names and dates of the first certificate. All must be well-formed, as peers require.
fn read_leaf(
    file: &Path,
    chain: &[(usize, CertificateDer<'static>)],
) -> Result<(Vec<String>, Option<Validity>), Flaw> {
    let mut leaf = None;
    for (line, der) in chain {
        let parsed = EndEntityCert::try_from(der).map_err(|error| {
            Flaw::of_block(
                file,
                *line,
                format!("is no X.509 certificate that can be used: {error}"),
            )
        })?;
        if leaf.is_none() {
            let names = parsed.valid_dns_names().map(str::to_ascii_lowercase);
            leaf = Some((names.collect(), Validity::of(der)));
        }
    }
    leaf.ok_or_else(|| Flaw::of_file(file, "holds no certificate"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Authority, Folder};
    use super::*;
    use core::time::Duration;
    use std::time::UNIX_EPOCH;

    const DAY_S: u64 = 86_400;

    /// A key and its certificate in each format, as OpenSSL writes them.
    const FORMS: [(&str, &str, &str); 3] = [
        (
            "PKCS#1, RSA",
            include_str!("keys/pkcs1.key"),
            include_str!("keys/pkcs1.pem"),
        ),
        (
            "SEC1, P-256",
            include_str!("keys/sec1.key"),
            include_str!("keys/sec1.pem"),
        ),
        (
            "PKCS#8, Ed25519",
            include_str!("keys/pkcs8.key"),
            include_str!("keys/pkcs8.pem"),
        ),
    ];

    #[test]
    fn upcoming_expiry_is_reported_early() {
        let mut identity = Authority::new().identity(&["a.test"]);
        let mut remark = |life_days: i64, at_s: u64| {
            identity.validity = Some(Validity {
                not_before_s: 1000,
                not_after_s: 1000 + life_days * 86_400,
            });
            identity.remark(UNIX_EPOCH + Duration::from_secs(1000 + at_s))
        };
        assert_eq!(remark(90, 0), None);
        assert_eq!(remark(90, 76 * DAY_S), None);
        assert!(remark(90, 76 * DAY_S + 1).is_some_and(|told| told.contains("in 13 days;")));
        assert!(remark(90, 88 * DAY_S + 1).is_some_and(|told| told.contains("in 1 day;")));
        // Certificates with a short lifetime are renewed late.
        assert_eq!(remark(6, 4 * DAY_S), None);
        assert!(remark(6, 4 * DAY_S + 1).is_some_and(|told| told.contains("in 1 day;")));
        assert!(remark(6, 6 * DAY_S + 1).is_some_and(|told| told.contains("has expired")));
        identity.validity = Some(Validity {
            not_before_s: 1000,
            not_after_s: 2000,
        });
        let early = identity.remark(UNIX_EPOCH + Duration::from_secs(999));
        assert!(early.is_some_and(|told| told.contains("not valid yet")));
        identity.validity = None;
        assert_eq!(identity.remark(UNIX_EPOCH), None);
    }

    #[test]
    fn keys_in_every_form_are_read_and_never_shown() {
        for (name, key, certificate) in FORMS {
            let folder = Folder::new();
            let files = IdentityFiles {
                certificate: folder.write("a.pem", certificate),
                key: folder.write("a.key", key),
            };
            let identity = Identity::read(&files).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
            let shown = format!("{identity:?}");
            for line in key.lines().filter(|line| line.len() > 30) {
                assert!(!shown.contains(line), "{name}");
            }
            assert!(shown.contains("a.test") && shown.len() < 300, "{shown}");
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let one = authority.files(&folder, "one", &["a.test"]);
        let other = authority.files(&folder, "other", &["a.test"]);
        let crossed = IdentityFiles {
            certificate: one.certificate,
            key: other.key,
        };
        let flaw = Identity::read(&crossed).expect_err("crossed").to_string();
        assert!(
            flaw.contains("other.key: the block at line 1 is not the key of"),
            "{flaw}"
        );
        assert!(flaw.contains("one.pem"), "{flaw}");
    }

    #[test]
    fn an_invalid_certificate_is_reported_with_its_line() {
        let (folder, authority) = (Folder::new(), Authority::new());
        let files = authority.files(&folder, "a", &["a.test"]);
        let good = std::fs::read_to_string(&files.certificate).expect("a file");
        let lines = good.lines().count();
        let bad = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        folder.write("a.pem", &format!("{good}{bad}"));
        let flaw = Identity::read(&files)
            .expect_err("no certificate")
            .to_string();
        let expected = format!("the block at line {} is no X.509 certificate", lines + 1);
        assert!(flaw.contains(&expected), "{flaw}");
    }
}
