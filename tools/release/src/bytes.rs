//! Compression and digests.

use data_encoding::HEXLOWER;
use flate2::{Compression, GzBuilder};
use md5::Md5;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// Compresses without a name or a time, so that equal input gives equal output.
pub(crate) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = GzBuilder::new().write(Vec::new(), Compression::best());
    file.write_all(bytes)?;
    file.finish()
}

/// SHA-256 as hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// MD5 as hexadecimal digits, which Debian's packages have for each file. It finds damaged files
/// and protects from nothing.
pub(crate) fn md5(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Md5::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn digests_are_those_of_their_standards() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(md5(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn compressed_text_is_readable_and_has_no_time() {
        let file = gzip(b"text").unwrap();
        // RFC 1952: FLG, then four bytes of MTIME.
        assert_eq!(file[3..8], [0; 5]);
        let mut text = String::new();
        flate2::read::GzDecoder::new(&file[..])
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "text");
    }
}
