//! The host of a request, and a route's condition on it.
//!
//! Names are compared without regard to case, without a port, and without the dot that may end them
//! (RFC 3986 §3.2.2, RFC 9110 §4.2.3).

use http::header;
use http::uri::{Authority, Uri};
use slackwater_http::Fields;

/// A condition on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRule {
    /// This host, in lower case.
    Exact(String),
    /// All subdomains of this host at any depth, but not the host itself: `example.com` for
    /// `*.example.com`.
    Below(String),
}

impl HostRule {
    /// Returns whether the host, as returned by [`host_of`], matches.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name.eq_ignore_ascii_case(host),
            Self::Below(name) => {
                let Some(at) = host.len().checked_sub(name.len()) else {
                    return false;
                };
                let is_below = at >= 2 && host.as_bytes()[at - 1] == b'.';
                is_below && host.as_bytes()[at..].eq_ignore_ascii_case(name.as_bytes())
            }
        }
    }

    /// Returns whether it matches every host that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        match other {
            Self::Exact(name) => self.matches(name),
            Self::Below(name) => {
                self == other || matches!(self, Self::Below(_)) && self.matches(name)
            }
        }
    }

    /// The rule as written in the configuration.
    pub fn written(&self) -> String {
        match self {
            Self::Exact(name) => name.clone(),
            Self::Below(name) => format!("*.{name}"),
        }
    }
}

/// The host of a request: from its target, otherwise from its `Host` header, without port and final
/// dot. `local` replaces a host that the request may leave out.
pub fn host_of<'r>(uri: &'r Uri, headers: &'r Fields, local: &'r Authority) -> &'r str {
    let authority = match uri.authority() {
        Some(authority) => authority.as_str(),
        None => (headers.get(header::HOST))
            .and_then(|host| host.to_str().ok())
            .filter(|host| !host.is_empty())
            .unwrap_or(local.as_str()),
    };
    let authority = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = if authority.starts_with('[') {
        (authority.find(']')).map_or(authority, |end| &authority[..=end])
    } else {
        authority.split(':').next().unwrap_or(authority)
    };
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn exact(name: &str) -> HostRule {
        HostRule::Exact(name.to_owned())
    }

    fn below(name: &str) -> HostRule {
        HostRule::Below(name.to_owned())
    }

    #[test]
    fn hosts_are_compared_without_case_and_wildcards_match_subdomains() {
        for (rule, host, expected) in [
            (exact("example.com"), "example.com", true),
            (exact("example.com"), "EXAMPLE.Com", true),
            (exact("example.com"), "www.example.com", false),
            (exact("example.com"), "example.co", false),
            (exact("example.com"), "", false),
            (below("example.com"), "www.example.com", true),
            (below("example.com"), "WWW.EXAMPLE.COM", true),
            (below("example.com"), "a.b.example.com", true),
            (below("example.com"), "example.com", false),
            (below("example.com"), ".example.com", false),
            (below("example.com"), "notexample.com", false),
            (below("example.com"), "www.example.com.evil", false),
            (below("example.com"), "com", false),
        ] {
            assert_eq!(rule.matches(host), expected, "{rule:?} {host}");
        }
    }

    #[test]
    fn a_rule_covers_equal_and_narrower_rules() {
        for (rule, other, expected) in [
            (exact("a.b"), exact("a.b"), true),
            (exact("a.b"), exact("c.b"), false),
            (exact("a.b"), below("b"), false),
            (below("b"), exact("a.b"), true),
            (below("b"), exact("b"), false),
            (below("b"), below("b"), true),
            (below("b"), below("a.b"), true),
            (below("a.b"), below("b"), false),
        ] {
            assert_eq!(rule.covers(&other), expected, "{rule:?} {other:?}");
        }
    }

    #[test]
    fn the_host_is_from_the_target_or_the_header_without_port_and_dot() {
        let local = Authority::from_static("192.0.2.1:8080");
        for (target, field, expected) in [
            ("/", Some("example.com"), "example.com"),
            ("/", Some("Example.com:8080"), "Example.com"),
            ("/", Some("example.com."), "example.com"),
            ("/", Some("example.com.:80"), "example.com"),
            ("/", Some("[::1]:80"), "[::1]"),
            ("/", Some("[::1]"), "[::1]"),
            ("/", Some("user@example.com"), "example.com"),
            ("http://target.com:1/", Some("field.com"), "target.com"),
            ("http://me@target.com/", None, "target.com"),
            ("/", Some(""), "192.0.2.1"),
            ("/", None, "192.0.2.1"),
        ] {
            let uri: Uri = target.parse().expect("a target");
            let mut headers = Fields::new();
            if let Some(field) = field {
                headers.insert(header::HOST, HeaderValue::from_static(field));
            }
            assert_eq!(
                host_of(&uri, &headers, &local),
                expected,
                "{target} {field:?}"
            );
        }
    }
}
