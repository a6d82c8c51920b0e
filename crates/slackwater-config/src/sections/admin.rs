//! `[admin]`: the admin server, and the word that whoever changes something there has to know.
//!
//! Only a digest of the word is kept, and compared in a time that says nothing of where two differ.
//! It is in no log, no status and no error; files of it are treated as those of the key for probes.

use super::files::{file_name, read_secret};
use crate::table::{self, Described, FILE, Maybe, Number, STRING, Within, keys};
use crate::toml_reader::values::quote;
use crate::toml_reader::{Reader, Remark};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use subtle::ConstantTimeEq;

/// Shorter ones can be guessed.
const LENGTH_MIN: usize = 16;
/// Longer ones do not fit a head beside everything else.
const LENGTH_MAX: usize = 1024;

macro_rules! expected {
    () => {
        "expected from 16 to 1024 letters, digits and -._~+/= and nothing else, such as openssl rand -hex 32 gives"
    };
}

/// The admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where it listens; `None` where the configuration says "none".
    pub listen: Option<SocketAddr>,
    /// Its connections at once.
    pub connections_max: u32,
    /// What whoever changes something there has to know, and the file that it is in; by default
    /// `None`: nobody may.
    pub token: Option<(AdminToken, PathBuf)>,
    /// Replicas that have series of their own in the metrics. `None` where there is but one.
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
    /// The keys that an agent has, too.
    pub(super) const OF_AGENT: &str = "connections_max";

    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String) {
        let listen = self.listen.map_or_else(|| quote("none"), quote);
        let token_file = self.token.as_ref().map(|(_, file)| file_name(file));
        let by_hand = [("listen", Some(listen)), ("token_file", token_file)];
        table::write_keys(to, "admin", table::shown_with(self, &by_hand));
    }
}

/// A token, as far as it has to be known to recognise it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// What a token is made of, in words.
    pub const EXPECTED: &str = expected!();

    /// `None` where it is too short, too long, or has other characters than an `authorization`
    /// header may carry.
    pub fn new(token: &[u8]) -> Option<Self> {
        let is_long_enough = (LENGTH_MIN..=LENGTH_MAX).contains(&token.len());
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        (is_long_enough && token.iter().all(fits)).then(|| Self(Sha256::digest(token).into()))
    }

    /// Whether this is the token.
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

/// The key `admin.token_file`, and what is to be remarked on the file.
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
    fn a_token_is_recognised_and_tells_nothing_of_itself() {
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
    fn the_bounds_are_those_that_are_told() {
        for bound in [LENGTH_MIN, LENGTH_MAX] {
            assert!(AdminToken::EXPECTED.contains(&format!(" {bound} ")));
        }
    }

    #[test]
    fn what_could_be_guessed_or_not_be_sent_is_no_token() {
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
