//! Changes to the headers of a request or response: some are removed, then some are set, then some
//! are added.

use http::header::{self, HeaderName, HeaderValue};
use slackwater_http::Fields;

/// The changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderChanges {
    /// Headers that are removed, before others are set.
    pub remove: Vec<HeaderName>,
    /// Headers that replace those of the same name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Headers added to those of the same name.
    pub add: Vec<(HeaderName, HeaderValue)>,
}

impl HeaderChanges {
    /// Whether nothing is changed.
    pub const fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Makes the changes.
    pub fn apply(&self, headers: &mut Fields) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value);
        }
        for (name, value) in &self.add {
            headers.append(name, value);
        }
    }
}

/// Returns why a route must not change a header. Headers that frame or address a message, or
/// concern a single connection, belong to the proxy.
pub fn why_untouchable(name: &HeaderName) -> Option<&'static str> {
    match *name {
        header::HOST => Some("the host is changed by rewrite.host"),
        header::CONNECTION
        | header::CONTENT_LENGTH
        | header::TE
        | header::TRAILER
        | header::TRANSFER_ENCODING
        | header::UPGRADE => Some("it belongs to the connection, which is the proxy's"),
        _ => match name.as_str() {
            "keep-alive" | "proxy-connection" => {
                Some("it belongs to the connection, which is the proxy's")
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    }

    #[test]
    fn fields_are_removed_then_set_then_added() {
        let mut headers: Fields = [
            field("x-a", "1"),
            field("x-a", "2"),
            field("x-b", "1"),
            field("x-c", "1"),
            field("x-d", "1"),
        ]
        .into_iter()
        .fold(Fields::new(), |mut headers, (name, value)| {
            headers.append(name, value);
            headers
        });
        let changes = HeaderChanges {
            remove: vec![
                HeaderName::from_static("x-c"),
                HeaderName::from_static("x-d"),
            ],
            set: vec![field("x-a", "new"), field("x-c", "back")],
            add: vec![field("x-b", "2"), field("x-d", "back")],
        };
        changes.apply(&mut headers);
        let values = |name: &'static str| -> Vec<&str> {
            let values = headers.get_all(name);
            values.map(|value| value.to_str().expect("text")).collect()
        };
        assert_eq!(values("x-a"), ["new"]);
        assert_eq!(values("x-b"), ["1", "2"]);
        assert_eq!(values("x-c"), ["back"]);
        assert_eq!(values("x-d"), ["back"]);
    }

    #[test]
    fn framing_headers_cannot_be_changed() {
        for name in [
            "host",
            "connection",
            "content-length",
            "te",
            "transfer-encoding",
            "upgrade",
            "keep-alive",
            "trailer",
            "proxy-connection",
        ] {
            assert!(
                why_untouchable(&HeaderName::from_static(name)).is_some(),
                "{name}"
            );
        }
        assert_eq!(why_untouchable(&HeaderName::from_static("x-a")), None);
    }
}
