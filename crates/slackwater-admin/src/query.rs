//! The parameters of a request: `service=web&replica=a%3A80`.

use percent_encoding::percent_decode_str;

/// The most parameters.
const PARAMETERS_MAX: usize = 32;

/// The parameters of a request, decoded, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// Why the parameters cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueryFault {
    /// There are too many parameters.
    #[error("more than {PARAMETERS_MAX} parameters")]
    TooMany,
    /// This parameter is repeated.
    #[error("parameter {0}: is there twice")]
    Twice(String),
    /// This parameter is not percent-encoded UTF-8.
    #[error("parameter {0:?}: is not percent-encoded UTF-8, such as a%3A80 for a:80")]
    Encoding(String),
}

impl Query {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    ///
    /// See [`QueryFault`].
    pub(crate) fn parse(text: &str) -> Result<Self, QueryFault> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            if parameters.len() == PARAMETERS_MAX {
                return Err(QueryFault::TooMany);
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let read = |text| decoded(text).ok_or_else(|| QueryFault::Encoding(pair.to_owned()));
            let (name, value) = (read(name)?, read(value)?);
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(QueryFault::Twice(name));
            }
            parameters.push((name, value));
        }
        Ok(Self(parameters))
    }

    /// All parameters, in order.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// A parameter's value.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the first parameter that is not in `known`.
    pub(crate) fn unknown(&self, known: &[&str]) -> Option<&str> {
        let mut names = self.0.iter().map(|(name, _)| name.as_str());
        names.find(|name| !known.contains(name))
    }
}

/// Decodes percent-encoded text; a plus is a space, as in forms. `None` if the text is not valid.
fn decoded(text: &str) -> Option<String> {
    let is_escape = |after_percent: &str| {
        let digits = after_percent.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    // The crate accepts a percent sign without digits; here it is a mistake.
    let is_encoded = text.split('%').skip(1).all(is_escape);
    let plain = text.replace('+', " ");
    let plain = percent_decode_str(&plain).decode_utf8().ok();
    plain.filter(|_| is_encoded).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded() {
        let query = Query::parse("service=web+1&replica=%5B%3a%3A1%5D:80&&flag&x=a=b").unwrap();
        assert_eq!(query.get("service"), Some("web 1"));
        assert_eq!(query.get("replica"), Some("[::1]:80"));
        assert_eq!(query.get("flag"), Some(""));
        assert_eq!(query.get("x"), Some("a=b"));
        assert_eq!(query.get("web"), None);
        assert_eq!(query.unknown(&["service", "replica", "x"]), Some("flag"));
        assert_eq!(query.unknown(&["service", "replica", "x", "flag"]), None);
        assert_eq!(Query::parse(""), Ok(Query::default()));
    }

    #[test]
    fn invalid_parameters_are_reported_by_name() {
        for odd in ["a=%", "a=%4", "a=%zz", "a=%ff", "%+1=b"] {
            assert_eq!(Query::parse(odd), Err(QueryFault::Encoding(odd.to_owned())));
        }
        assert_eq!(
            Query::parse("a=1&b&%61=2").unwrap_err().to_string(),
            "parameter a: is there twice"
        );
        let many = |count: usize| {
            let names: Vec<_> = (0..count).map(|it| format!("p{it}")).collect();
            names.join("&")
        };
        assert!(Query::parse(&many(32)).is_ok());
        assert_eq!(Query::parse(&many(33)), Err(QueryFault::TooMany));
    }
}
