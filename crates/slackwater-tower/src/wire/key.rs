//! The secret that clients and replicas may share, and the tag that authenticates datagrams.
//!
//! A tag is HMAC-SHA256 truncated to 16 bytes. A forger who tries 2^64 datagrams succeeds with a
//! probability of 2^−64. Truncation to half the hash, the shortest that RFC 2104 section 5
//! recommends, costs nothing that matters here. Which bytes a tag covers is decided in `datagram`
//! and `signed`.

use super::hex;
use core::fmt;
use core::str::FromStr;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// The size of a tag in bytes.
pub(super) const TAG_BYTES: usize = 16;

/// A secret shared by clients and replicas. Never printed, not even by `Debug`.
///
/// Text form: hexadecimal. `openssl rand -hex 32` makes a key file.
///
/// ```
/// use slackwater_tower::wire::ProbeKey;
///
/// let key: ProbeKey = "000102030405060708090a0b0c0d0e0f".parse()?;
/// assert_eq!(format!("{key:?}"), "ProbeKey(..)");
/// # Ok::<(), slackwater_tower::wire::BadProbeKey>(())
/// ```
#[derive(Clone)]
pub struct ProbeKey {
    /// HMAC state after the key was absorbed: cloning it costs less than hashing the key again.
    primary: Hmac<Sha256>,
    /// A second key whose tags are accepted too, during a change of keys.
    also: Option<Hmac<Sha256>>,
}

impl ProbeKey {
    /// The fewest bytes of a key.
    pub const BYTES_MIN: usize = 16;
    /// The most bytes of a key: SHA-256's block size. Longer keys would only be hashed to shorter
    /// ones.
    pub const BYTES_MAX: usize = 64;

    /// Makes a key from `secret`: 16 to 64 bytes that are hard to guess (32 random ones are good).
    pub fn from_bytes(secret: &[u8]) -> Result<Self, BadProbeKey> {
        let bytes = secret.len();
        if !(Self::BYTES_MIN..=Self::BYTES_MAX).contains(&bytes) {
            return Err(BadProbeKey::Length { bytes });
        }
        let primary = Hmac::new_from_slice(secret)
            .map_err(|_any_length_will_do| BadProbeKey::Length { bytes })?;
        Ok(Self {
            primary,
            also: None,
        })
    }

    /// Returns this key, extended to accept datagrams made with `other` too; tags are still made
    /// with this one. For changing keys without interruption: see "Changing keys" in
    /// `docs/reference/probe-protocol.md`. A second key of `other` is dropped.
    #[must_use]
    pub fn accepting(self, other: &Self) -> Self {
        Self {
            primary: self.primary,
            also: Some(other.primary.clone()),
        }
    }

    /// Computes the tag of `bytes`.
    pub(super) fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        tag_by(&self.primary, bytes)
    }

    /// Whether `tag` is the tag of `bytes` under this key, or under the second key. Takes as long
    /// for a wrong tag as for a right one.
    pub(super) fn accepts(&self, bytes: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        let primary = tag_by(&self.primary, bytes).ct_eq(tag);
        let also = self
            .also
            .as_ref()
            .map_or(Choice::from(0), |also| tag_by(also, bytes).ct_eq(tag));
        (primary | also).into()
    }
}

fn tag_by(keyed: &Hmac<Sha256>, bytes: &[u8]) -> [u8; TAG_BYTES] {
    let mut mac = keyed.clone();
    mac.update(bytes);
    let full: [u8; 32] = mac.finalize().into_bytes().into();
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&full[..TAG_BYTES]);
    tag
}

impl FromStr for ProbeKey {
    type Err = BadProbeKey;

    /// Reads 32 to 128 hexadecimal digits. Blanks and line ends around them are ignored.
    fn from_str(text: &str) -> Result<Self, BadProbeKey> {
        let digits = text.trim_ascii().as_bytes();
        if digits.len() > 2 * Self::BYTES_MAX {
            return Err(BadProbeKey::Length {
                bytes: digits.len().div_ceil(2),
            });
        }
        let mut secret = [0; Self::BYTES_MAX];
        let bytes = hex::decode(digits, &mut secret).ok_or(BadProbeKey::NotHex)?;
        Self::from_bytes(&secret[..bytes])
    }
}

impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeKey(..)")
    }
}

/// Why a text or secret is not a valid probe key. Never contains the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadProbeKey {
    /// Fewer than 16 or more than 64 bytes.
    #[error(
        "the probe key has {bytes} bytes, it needs {} to {}; make one with `openssl rand -hex 32`",
        ProbeKey::BYTES_MIN,
        ProbeKey::BYTES_MAX
    )]
    Length {
        /// The number of bytes.
        bytes: usize,
    },
    /// The text is not an even number of hexadecimal digits.
    #[error(
        "the probe key is not an even number of hexadecimal digits; make one with `openssl rand -hex 32`"
    )]
    NotHex,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_16_to_64_bytes() {
        for (bytes, good) in [(0, false), (15, false), (16, true), (64, true), (65, false)] {
            assert_eq!(
                ProbeKey::from_bytes(&vec![7; bytes]).is_ok(),
                good,
                "{bytes}"
            );
            assert_eq!(
                "07".repeat(bytes).parse::<ProbeKey>().is_ok(),
                good,
                "{bytes} in hex"
            );
        }
        assert_eq!(
            "07".repeat(65).parse::<ProbeKey>().unwrap_err(),
            BadProbeKey::Length { bytes: 65 }
        );
        assert_eq!("0x07".parse::<ProbeKey>().unwrap_err(), BadProbeKey::NotHex);
        assert!(
            format!("\t{}\r\n", "07".repeat(32))
                .parse::<ProbeKey>()
                .is_ok()
        );
    }

    #[test]
    fn the_tag_is_the_first_half_of_hmac_sha256() {
        // RFC 4231, test case 1.
        let key = ProbeKey::from_bytes(&[0x0b; 20]).unwrap();
        assert_eq!(
            hex::encode(&key.tag(b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b"
        );
    }

    #[test]
    fn key_rotation_accepts_both_keys_and_signs_with_the_new() {
        let (old, new, other) = (
            ProbeKey::from_bytes(&[1; 32]).unwrap(),
            ProbeKey::from_bytes(&[2; 32]).unwrap(),
            ProbeKey::from_bytes(&[3; 32]).unwrap(),
        );
        let both = new.clone().accepting(&old);
        assert_eq!(both.tag(b"x"), new.tag(b"x"));
        assert!(both.accepts(b"x", &old.tag(b"x")) && both.accepts(b"x", &new.tag(b"x")));
        assert!(!both.accepts(b"x", &other.tag(b"x")) && !both.accepts(b"y", &new.tag(b"x")));
        assert!(!new.accepts(b"x", &old.tag(b"x")));
    }
}
