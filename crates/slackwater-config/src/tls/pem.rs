//! PEM files: certificates, and private keys in each of their three forms (PKCS#8, SEC1, PKCS#1).
//! RFC 7468
//!
//! Text between blocks and blocks of other kinds are ignored, so a file may hold a chain and its
//! key together.

use super::flaw::Flaw;
use crate::toml_reader::read_bounded;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

const BEGIN: &[u8] = b"-----BEGIN ";

/// The blocks of a file that are of a known kind.
#[derive(Debug)]
pub(super) struct Pem<'f> {
    file: &'f Path,
    blocks: Vec<Block>,
    /// Lines of encrypted keys.
    encrypted: Vec<usize>,
}

struct Block {
    /// Line of the block, from 1.
    line: usize,
    kind: SectionKind,
    der: Vec<u8>,
}

impl core::fmt::Debug for Block {
    /// Omits the bytes, which may be a key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Block({:?} at line {})", self.kind, self.line)
    }
}

impl<'f> Pem<'f> {
    /// Reads a file of at most 1 MiB.
    pub(super) fn read(file: &'f Path) -> Result<Self, Flaw> {
        let text = read_bounded(file).map_err(|why| Flaw::of_file(file, why))?;
        Self::parse(file, &text)
    }

    /// Reads a text from a place in `file`.
    pub(super) fn parse(file: &'f Path, text: &[u8]) -> Result<Self, Flaw> {
        let mut pem = Self {
            file,
            blocks: Vec::new(),
            encrypted: Vec::new(),
        };
        for (line, block) in blocks(text) {
            if block.starts_with(b"-----BEGIN ENCRYPTED")
                || has_line(block, b"Proc-Type: 4,ENCRYPTED")
            {
                pem.encrypted.push(line);
                continue;
            }
            for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(block) {
                let (kind, der) = section.map_err(|_| {
                    Flaw::of_block(file, line, "is damaged, expected base64 and an END line")
                })?;
                pem.blocks.push(Block { line, kind, der });
            }
        }
        Ok(pem)
    }

    /// Returns the certificates in the order of the file, each with its line; at least one.
    pub(super) fn certificates(&self) -> Result<Vec<(usize, CertificateDer<'static>)>, Flaw> {
        let found: Vec<_> = (self.blocks.iter())
            .filter(|block| block.kind == SectionKind::Certificate)
            .map(|block| (block.line, CertificateDer::from(block.der.clone())))
            .collect();
        if found.is_empty() {
            return Err(Flaw::of_file(
                self.file,
                "holds no certificate, expected PEM with -----BEGIN CERTIFICATE-----",
            ));
        }
        Ok(found)
    }

    /// Returns the only private key, with its line.
    pub(super) fn key(&self) -> Result<(usize, PrivateKeyDer<'static>), Flaw> {
        let mut keys = self.blocks.iter().filter_map(|block| {
            let key = PrivateKeyDer::from_pem(block.kind, block.der.clone())?;
            Some((block.line, key))
        });
        match (keys.next(), keys.next(), self.encrypted.first()) {
            (Some(key), None, _) => Ok(key),
            (Some(_), Some((line, _)), _) => Err(Flaw::of_block(
                self.file,
                line,
                "is a second private key, expected one",
            )),
            (None, _, Some(&line)) => Err(Flaw::of_block(
                self.file,
                line,
                "is a private key under a passphrase, expected one without, that only this program's user can read",
            )),
            (None, ..) => Err(Flaw::of_file(
                self.file,
                "holds no private key, expected PEM with -----BEGIN PRIVATE KEY-----",
            )),
        }
    }
}

/// Splits the text into blocks, from one BEGIN line to the next, each with the number of its first
/// line.
fn blocks(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut starts = Vec::new();
    let mut at = 0;
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.starts_with(BEGIN) {
            starts.push((number + 1, at));
        }
        at += line.len();
    }
    let ends: Vec<usize> = (starts.iter().skip(1).map(|(_, at)| *at))
        .chain([text.len()])
        .collect();
    (starts.into_iter().zip(ends)).map(|((line, start), end)| (line, &text[start..end]))
}

fn has_line(block: &[u8], wanted: &[u8]) -> bool {
    (block.split(|byte| *byte == b'\n')).any(|line| line.trim_ascii() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{KeyPair, generate_simple_self_signed};

    fn file() -> &'static Path {
        Path::new("a.pem")
    }

    fn certificate() -> String {
        let made = generate_simple_self_signed(["a.test".to_owned()]);
        made.expect("a certificate").cert.pem()
    }

    fn key() -> String {
        KeyPair::generate().expect("a key").serialize_pem()
    }

    fn certificate_flaw(text: &str) -> String {
        let read = Pem::parse(file(), text.as_bytes()).and_then(|pem| pem.certificates());
        read.expect_err("flawed").to_string()
    }

    fn key_flaw(text: &str) -> String {
        let read = Pem::parse(file(), text.as_bytes()).and_then(|pem| pem.key());
        read.expect_err("flawed").to_string()
    }

    #[test]
    fn file_may_contain_chain_key_and_comments() {
        let text = format!(
            "for a.test\n{}\n# issuer\n{}{}",
            certificate(),
            certificate(),
            key()
        );
        let pem = Pem::parse(file(), text.as_bytes()).expect("well-formed");
        let chain = pem.certificates().expect("two");
        assert_eq!(chain.len(), 2);
        assert_eq!(chain[0].0, 2, "the first block's line");
        assert!(pem.key().is_ok());
    }

    #[test]
    fn windows_line_endings_are_accepted() {
        let text = format!("{}{}", certificate(), key()).replace('\n', "\r\n");
        let pem = Pem::parse(file(), text.as_bytes()).expect("well-formed");
        assert_eq!(pem.certificates().expect("one").len(), 1);
        assert!(pem.key().is_ok());
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        let (certificate, key) = (certificate(), key());
        assert!(certificate_flaw("").starts_with("a.pem: holds no certificate"));
        assert!(certificate_flaw(&key).starts_with("a.pem: holds no certificate"));
        assert!(key_flaw(&certificate).starts_with("a.pem: holds no private key"));
        let lines = key.lines().count();
        assert!(key_flaw(&format!("{key}{key}")).starts_with(&format!(
            "a.pem: the block at line {} is a second",
            lines + 1
        )));
        let cut = &certificate[..certificate.len() / 2];
        assert!(certificate_flaw(cut).starts_with("a.pem: the block at line 1 is damaged"));
        let garbled = certificate.replacen("MII", "M*I", 1);
        assert!(certificate_flaw(&format!("\n\n{garbled}")).contains("line 3 is damaged"));
    }

    #[test]
    fn encrypted_keys_are_distinguished_from_missing_ones() {
        let modern = key().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let old = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\nAAAA\n\
                   -----END EC PRIVATE KEY-----\n";
        for text in [modern.as_str(), old] {
            assert!(key_flaw(text).contains("line 1 is a private key under a passphrase"));
        }
    }

    #[test]
    fn keys_are_never_shown() {
        let key = key();
        let pem = Pem::parse(file(), key.as_bytes()).expect("well-formed");
        let shown = format!("{pem:?}");
        for line in key.lines().filter(|line| !line.starts_with('-')) {
            assert!(!shown.contains(line));
        }
        assert!(shown.len() < 100, "{shown}");
    }
}
