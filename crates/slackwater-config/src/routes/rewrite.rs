//! Changes to a request's target on its way to a service.

use http::HeaderValue;
use http::header;
use http::uri::{Authority, PathAndQuery, Uri};
use slackwater_http::Request;

/// The changes. The host is valid both as a header and as an authority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The host that replicas receive; `None`: the client's.
    pub host: Option<Authority>,
    /// The change of the path; `None`: unchanged.
    pub path: Option<PathRewrite>,
}

/// A change of the path. The query stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRewrite {
    /// Replaces the whole path.
    Whole(String),
    /// Replaces the first `length` bytes, which are the route's prefix, by `with`, which does not
    /// end with a `/`.
    Prefix {
        /// Length of the prefix in bytes.
        length: usize,
        /// The replacement; may be empty.
        with: String,
    },
}

impl PathRewrite {
    fn apply(&self, path: &str) -> String {
        match self {
            Self::Whole(path) => path.clone(),
            Self::Prefix { length, with } => {
                let rest = path.get(*length..).unwrap_or_default();
                match (with.is_empty(), rest.is_empty()) {
                    (true, true) => "/".to_owned(),
                    // Some servers read two slashes at the start, in any spelling, as the beginning
                    // of a host.
                    (true, false) => format!("/{}", without_slashes(rest)),
                    (false, _) => format!("{with}{rest}"),
                }
            }
        }
    }
}

/// Removes slashes and backslashes at the start, also percent-encoded ones.
fn without_slashes(path: &str) -> &str {
    const SLASHES: [&str; 6] = ["/", "\\", "%2f", "%2F", "%5c", "%5C"];
    let mut rest = path;
    while let Some(after) = SLASHES.iter().find_map(|slash| rest.strip_prefix(slash)) {
        rest = after;
    }
    rest
}

impl Rewrite {
    /// Changes a request that is ready for a replica. The host is changed where it is: in the
    /// header or in the target.
    ///
    /// Returns `false` if the result is not a valid target. A path stays a path, so that does not
    /// happen.
    pub fn apply<B>(&self, request: &mut Request<B>) -> bool {
        if let Some(host) = &self.host {
            if request.headers().contains_key(header::HOST) {
                let Ok(value) = HeaderValue::from_str(host.as_str()) else {
                    return false;
                };
                request.headers_mut().insert(header::HOST, value);
            } else {
                let mut parts = core::mem::take(request.uri_mut()).into_parts();
                parts.authority = Some(host.clone());
                let Ok(uri) = Uri::from_parts(parts) else {
                    return false;
                };
                *request.uri_mut() = uri;
            }
        }
        let Some(path) = &self.path else {
            return true;
        };
        let mut target = path.apply(request.uri().path());
        if let Some(query) = request.uri().query() {
            target.push('?');
            target.push_str(query);
        }
        let Ok(target) = PathAndQuery::try_from(target) else {
            return false;
        };
        let mut parts = core::mem::take(request.uri_mut()).into_parts();
        parts.path_and_query = Some(target);
        match Uri::from_parts(parts) {
            Ok(uri) => {
                *request.uri_mut() = uri;
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(from: &str, with: &str) -> PathRewrite {
        PathRewrite::Prefix {
            length: from.len(),
            with: with.to_owned(),
        }
    }

    #[test]
    fn a_prefix_is_stripped_or_replaced_and_the_query_stays() {
        for (path, target, expected) in [
            (prefix("/api", ""), "/api", "/"),
            (prefix("/api", ""), "/api/", "/"),
            (prefix("/api", ""), "/api/x?q=1", "/x?q=1"),
            (prefix("/api", ""), "/api?q", "/?q"),
            (
                prefix("/api", ""),
                "/api//evil.example/x",
                "/evil.example/x",
            ),
            (
                prefix("/api", ""),
                "/api/%2f%5Cevil.example",
                "/evil.example",
            ),
            (prefix("/api", ""), "/api/%2Fevil%2Fx", "/evil%2Fx"),
            (prefix("/api", "/v2"), "/api", "/v2"),
            (prefix("/api", "/v2"), "/api/x?q=1", "/v2/x?q=1"),
            (prefix("", "/v2"), "/x", "/v2/x"),
            (PathRewrite::Whole("/y".to_owned()), "/x?q=1", "/y?q=1"),
        ] {
            let rewrite = Rewrite {
                path: Some(path),
                host: None,
            };
            let mut request = Request::new(());
            *request.uri_mut() = target.parse().expect("a target");
            assert!(rewrite.apply(&mut request));
            assert_eq!(request.uri().to_string(), expected, "{target}");
        }
    }

    #[test]
    fn host_is_rewritten_in_its_header() {
        let rewrite = Rewrite {
            host: Some(Authority::from_static("inner.example:81")),
            path: Some(prefix("/api", "")),
        };
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_static("/api/x");
        let host = HeaderValue::from_static("outer.example");
        request.headers_mut().insert(header::HOST, host);
        assert!(rewrite.apply(&mut request));
        assert_eq!(request.uri(), "/x");
        let host = request.headers().get(header::HOST).expect("a host");
        assert_eq!(host, "inner.example:81");

        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_static("http://outer.example/api/x");
        assert!(rewrite.apply(&mut request));
        assert_eq!(request.uri(), "http://inner.example:81/x");
        assert!(request.headers().is_empty());
    }
}
