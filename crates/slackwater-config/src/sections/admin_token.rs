//! The word that whoever changes something at the admin server has to know: `admin.token_file`.
//!
//! Only a digest of it is kept, and compared in a time that says nothing of where two differ. It is in no log, no status and
//! no error; files of it are treated as those of the key for probes.

use super::probe::read_secret;
use crate::toml_reader::values::text;
use crate::toml_reader::{Item, Mistake, Reader, Remark, read_bounded};
use core::fmt;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;

/// Shorter ones can be guessed.
const LENGTH_MIN: usize = 16;
/// Longer ones do not fit a head beside everything else.
const LENGTH_MAX: usize = 1024;

/// A token, as far as it has to be known to recognise it.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// What a token is made of, in words.
    pub const EXPECTED: &str = "expected from 16 to 1024 letters, digits and -._~+/= and nothing else, such as openssl \
                                       rand -hex 32 gives";

    /// `None` where it is too short, too long, or has other characters than an `authorization` header may carry.
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

/// The key `admin.token_file`, and what is to be remarked on the file. A relative name in a configuration file starts from
/// that file's own directory.
pub(super) fn read_token_file(
    reader: &mut Reader<'_>,
) -> (Option<(AdminToken, PathBuf)>, Option<Remark>) {
    let Some(item) = reader.take("admin.token_file") else {
        return (None, None);
    };
    read_secret(reader, &item, read)
}

fn read(item: &Item<'_>, base: Option<&Path>) -> Result<(AdminToken, PathBuf), Mistake> {
    let written = item.read(|value| text(value, "the name of a file"), "")?;
    let file = base.map_or_else(|| PathBuf::from(written), |base| base.join(written));
    let bytes =
        read_bounded(&file).map_err(|why| item.mistake(format!("{}: {why}", file.display())))?;
    let token = AdminToken::new(bytes.trim_ascii()).ok_or_else(|| {
        item.mistake(format!(
            "{} does not hold a token, {}",
            file.display(),
            AdminToken::EXPECTED
        ))
    })?;
    Ok((token, file))
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
