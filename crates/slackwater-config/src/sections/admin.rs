//! `[admin]`: the admin server, and the token for changes through it.
//!
//! Only a digest of the token is kept, and it is compared in constant time. The token appears in no
//! log, no status and no error. Its file is checked like the file of the probe key.

use super::files::{file_name, read_secret};
use crate::table::{self, Described, FILE, Maybe, Number, STRING, Within, keys};
use crate::toml_reader::values::quote;
use crate::toml_reader::{Reader, Remark};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use subtle::ConstantTimeEq;

/// Shorter tokens can be guessed.
const LENGTH_MIN: usize = 16;
/// Longer ones might not fit the head of a request beside everything else.
const LENGTH_MAX: usize = 1024;

macro_rules! expected {
    () => {
        "expected from 16 to 1024 letters, digits and -._~+/= and nothing else, such as openssl rand -hex 32 gives"
    };
}

/// Settings of the admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// The listener's address; `None` if it is "none" in the configuration.
    pub listen: Option<SocketAddr>,
    /// Its concurrent connections at most.
    pub connections_max: u32,
    /// The token that permits changes, and its file; default `None`: no changes are permitted.
    pub token: Option<(AdminToken, PathBuf)>,
    /// Replicas with their own series in the metrics; `None` where there is only one replica.
    pub metrics_replicas_max: Option<u32>,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9900)),
            connections_max: 64,
            token: None,
            metrics_replicas_max: Some(1_000),
        }
    }
}

keys! { AdminSettings in "admin" {
    /// Address of status, metrics and dashboard; `"none"`: not served. Beyond loopback, anyone who
    /// can connect can read them.
    listen: Described("an address, or `\"none\"`", STRING), "`\"127.0.0.1:9900\"`", fixed;
    /// Connections to the admin server. One more replaces the one that has been idle longest, or
    /// waits.
    connections_max at connections_max: Within(Number, 1..=4096), fixed;
    /// A file with a token of 16 to 1,024 letters, digits and `-._~+/=` that permits [changes at
    /// run time](admin.md#changing-things-at-run-time). Keep it at mode 600. Not for `agent`.
    token_file: FILE, "none: nothing can be changed";
    /// Replicas with their own series at `/metrics`. Others are summed up as
    /// [`(other)`](metrics.md#many-replicas).
    metrics_replicas_max at metrics_replicas_max: Maybe(Within(Number, 0..=1_000_000)), fixed;
} }

impl AdminSettings {
    /// The key that an agent has, too.
    pub(super) const OF_AGENT: &str = "connections_max";

    /// Writes the section with the values in force.
    pub(super) fn write(&self, to: &mut String) {
        let listen = self.listen.map_or_else(|| quote("none"), quote);
        let token_file = self.token.as_ref().map(|(_, file)| file_name(file));
        let by_hand = [("listen", Some(listen)), ("token_file", token_file)];
        table::write_keys(to, "admin", table::shown_with(self, &by_hand));
    }
}

/// The digest of a token, which is enough to verify it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// Description of a valid token.
    pub const EXPECTED: &str = expected!();

    /// Returns `None` if the token is too short, too long, or has characters that an
    /// `authorization` header must not carry.
    pub fn new(token: &[u8]) -> Option<Self> {
        let is_long_enough = (LENGTH_MIN..=LENGTH_MAX).contains(&token.len());
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        (is_long_enough && token.iter().all(fits)).then(|| Self(Sha256::digest(token).into()))
    }

    /// Compares `offered` with this token.
    pub fn is(&self, offered: &[u8]) -> bool {
        let offered: [u8; 32] = Sha256::digest(offered).into();
        self.0.ct_eq(&offered).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(..)")
    }
}

/// Reads the key `admin.token_file`, with a remark if others can read the file.
pub(super) fn read_token_file(
    reader: &mut Reader<'_>,
) -> (Option<(AdminToken, PathBuf)>, Option<Remark>) {
    read_secret(reader, "admin.token_file", |bytes| {
        AdminToken::new(bytes).ok_or(concat!("does not hold a token, ", expected!()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_verified_and_never_shown() {
        let token = AdminToken::new(b"0123456789abcdef").expect("16 characters");
        assert!(token.is(b"0123456789abcdef"));
        for other in [
            "0123456789abcdeF",
            "0123456789abcde",
            "0123456789abcdef0",
            "",
        ] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "AdminToken(..)");
    }

    #[test]
    fn the_documented_bounds_are_enforced() {
        for bound in [LENGTH_MIN, LENGTH_MAX] {
            assert!(AdminToken::EXPECTED.contains(&format!(" {bound} ")));
        }
    }

    #[test]
    fn weak_and_unsendable_tokens_are_rejected() {
        for odd in [
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcdeñ",
            "0123456789\nabcdef",
        ] {
            assert_eq!(AdminToken::new(odd.as_bytes()), None, "{odd:?}");
        }
        assert!(AdminToken::new(&[b'a'; 1024]).is_some());
        assert_eq!(AdminToken::new(&[b'a'; 1025]), None);
    }
}
