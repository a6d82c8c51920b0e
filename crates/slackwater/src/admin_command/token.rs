//! The token that authorizes changes. It comes from a file or from the environment, and never from
//! the command line, which all users of the machine can read.

use core::fmt;
use http::HeaderValue;
use slackwater_config::AdminToken;
use slackwater_config::Fault;
use slackwater_config::toml_reader::read_bounded;
use std::env;
use std::path::Path;

/// The environment variable with the token, used if no file is named.
pub(super) const VARIABLE: &str = "SLACKWATER_ADMIN_TOKEN";

/// A token, ready to be sent. Its `Debug` output hides it.
pub(super) struct Token(HeaderValue);

impl Token {
    /// Reads the token from `file`, or else from the environment; `None` if there is neither.
    ///
    /// # Errors
    ///
    /// The content is not a valid token.
    pub(super) fn find(file: Option<&Path>) -> Result<Option<Self>, Fault> {
        let Some(file) = file else {
            let value = env::var_os(VARIABLE).filter(|value| !value.is_empty());
            let token = value.map(|value| Self::read(value.as_encoded_bytes(), &VARIABLE));
            return token.transpose();
        };
        let shown = format!("--token-file {}", file.display());
        let bytes = read_bounded(file).map_err(|why| Fault::usage(format!("{shown}: {why}")))?;
        Self::read(&bytes, &shown).map(Some)
    }

    fn read(text: &[u8], place: &dyn fmt::Display) -> Result<Self, Fault> {
        let text = text.trim_ascii();
        let value = AdminToken::new(text)
            .and_then(|_| HeaderValue::from_bytes(&[b"Bearer ", text].concat()).ok());
        let mut value = value.ok_or_else(|| {
            let expected = AdminToken::EXPECTED;
            Fault::usage(format!("{place} does not hold a token, {expected}"))
        })?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// Returns a token with this text.
    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self::read(text.as_bytes(), &"a test").expect("a token")
    }

    /// The `authorization` header with the token.
    pub(super) const fn authorization(&self) -> &HeaderValue {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_and_not_shown() {
        let token = Token::read(b" 0123456789abcdef\n", &"here").expect("16 characters");
        assert_eq!(token.authorization(), "Bearer 0123456789abcdef");
        assert_eq!(
            format!("{token:?} {:?}", token.authorization()),
            "Token(..) Sensitive"
        );
    }

    #[test]
    fn an_invalid_token_is_reported_with_its_source_and_not_repeated() {
        for odd in ["secret", "0123456789abcdef\nx-more: 1", ""] {
            let why = Token::read(odd.as_bytes(), &"--token-file t").expect_err(odd);
            let why = why.to_string();
            assert!(
                why.starts_with("--token-file t does not hold a token, expected from 16"),
                "{why}"
            );
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
