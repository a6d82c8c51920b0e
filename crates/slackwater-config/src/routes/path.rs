//! Matching of a request's path against a route's path, and paths that are ambiguous.
//!
//! A route's path is compared with the request's path as it was sent: byte by byte, segment by
//! segment. `/api` matches `/api` and `/api/x`, but not `/apix`.
//!
//! A server behind the proxy may read a path differently: `%61` as `a`, `%2F` and `\` as `/`, `//`
//! as `/`, `;x` as nothing, and `..` as the parent (RFC 3986 §6.2.2). A path that matches a route
//! only when it is read in such a way is [`Reading::Doubtful`]. So is a path with `..`, for every
//! route that has a path. Such a request must not slip past a rule, whichever reading the server
//! uses. Almost all paths have none of these marks, and one reading.

use core::fmt;
use core::iter::from_fn;
use percent_encoding::percent_decode;

/// A condition on the path. It has only plain characters, see [`PathRule::is_plain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRule {
    /// This path.
    Exact(String),
    /// This path and all below it; without a final `/`, so that the root is empty.
    Prefix(String),
}

impl fmt::Display for PathRule {
    /// Formats the rule as a pattern: `/cart`, or `/api/*` for all paths below `/api`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(path) => f.write_str(path),
            Self::Prefix(prefix) => write!(f, "{prefix}/*"),
        }
    }
}

/// Result of comparing a request's path with a route's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It matches in every interpretation.
    Meant,
    /// It does not match in any interpretation.
    NotMeant,
    /// It depends on the interpretation.
    Doubtful,
}

/// A request's path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path<'r> {
    sent: &'r str,
    doubt: Doubt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doubt {
    /// There is one interpretation.
    #[default]
    None,
    /// There are several, and none of them goes up.
    Spelling,
    /// In some interpretations it goes up to a parent, or stays.
    WayBack,
}

impl<'r> Path<'r> {
    /// The path of a request, without its query.
    pub fn new(sent: &'r str) -> Self {
        let bytes = sent.as_bytes();
        let is_marked = |pair: &[u8]| matches!(pair, [b'/', b'/' | b'.']);
        let is_strange = bytes.iter().any(|byte| matches!(byte, b'%' | b'\\' | b';'))
            || bytes.windows(2).any(is_marked);
        let doubt = match is_strange {
            false => Doubt::None,
            true if goes_back(bytes) => Doubt::WayBack,
            true => Doubt::Spelling,
        };
        Self { sent, doubt }
    }
}

impl PathRule {
    /// The rule for a path and all below it.
    pub fn prefix(path: &str) -> Self {
        Self::Prefix(path.strip_suffix('/').unwrap_or(path).to_owned())
    }

    /// Whether a rule's path has only one interpretation: an absolute path of unreserved characters
    /// and of delimiters without a special meaning.
    pub fn is_plain(path: &str) -> bool {
        let byte_is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,=:@".contains(&byte);
        path.starts_with('/')
            && path.bytes().all(byte_is_plain)
            && !path.contains("//")
            && !goes_back(path.as_bytes())
    }

    /// Compares a request's path with the rule.
    pub fn read(&self, path: Path<'_>) -> Reading {
        let is_meant = match self {
            Self::Exact(rule) => path.sent == rule,
            Self::Prefix(rule) => {
                let rest = path.sent.strip_prefix(rule.as_str());
                rest.is_some_and(|rest| {
                    rest.is_empty() && !rule.is_empty() || rest.starts_with('/')
                })
            }
        };
        match path.doubt {
            Doubt::WayBack => Reading::Doubtful,
            _ if is_meant => Reading::Meant,
            Doubt::Spelling if self.may_mean(path.sent) => Reading::Doubtful,
            _ => Reading::NotMeant,
        }
    }

    /// Whether the rule matches after every normalization.
    fn may_mean(&self, sent: &str) -> bool {
        let mut read = freely(sent.as_bytes());
        let mut begins_with = |rule: &str| rule.bytes().all(|byte| read.next() == Some(byte));
        match self {
            Self::Exact(rule) => begins_with(rule) && read.next().is_none(),
            Self::Prefix(rule) => begins_with(rule) && matches!(read.next(), None | Some(b'/')),
        }
    }

    /// Returns whether it matches every path that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(_), Self::Prefix(_)) => false,
            (_, Self::Exact(path)) => self.read(Path::new(path)) == Reading::Meant,
            (Self::Prefix(rule), Self::Prefix(path)) => (path.strip_prefix(rule.as_str()))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }
}

/// The path after every normalization: decoded once, all separators as single slashes, parameters
/// removed.
fn freely(path: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut bytes = percent_decode(path);
    let mut after_slash = false;
    let mut in_parameter = false;
    from_fn(move || {
        loop {
            let byte = bytes.next()?;
            let is_slash = matches!(byte, b'/' | b'\\');
            let is_skipped = is_slash && after_slash;
            in_parameter = !is_slash && (in_parameter || byte == b';');
            if is_skipped || in_parameter {
                continue;
            }
            after_slash = is_slash;
            return Some(if is_slash { b'/' } else { byte });
        }
    })
}

/// Whether the normalized path has a segment `.` or `..`.
fn goes_back(path: &[u8]) -> bool {
    let mut dots = Some(0_u32);
    let mut found = false;
    for byte in freely(path) {
        dots = match byte {
            b'/' => {
                found |= matches!(dots, Some(1 | 2));
                Some(0)
            }
            b'.' => dots.map(|dots| dots.saturating_add(1)),
            _ => None,
        };
    }
    found || matches!(dots, Some(1 | 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reading::{Doubtful, Meant, NotMeant};

    fn exact(path: &str) -> PathRule {
        PathRule::Exact(path.to_owned())
    }

    #[test]
    fn a_prefix_is_compared_by_segments_and_an_exact_path_to_its_end() {
        for (rule, path, expected) in [
            (PathRule::prefix("/api"), "/api", Meant),
            (PathRule::prefix("/api"), "/api/", Meant),
            (PathRule::prefix("/api"), "/api/x", Meant),
            (PathRule::prefix("/api"), "/apix", NotMeant),
            (PathRule::prefix("/api"), "/ap", NotMeant),
            (PathRule::prefix("/api"), "/API", NotMeant),
            (PathRule::prefix("/api/"), "/api", Meant),
            (PathRule::prefix("/api/v1"), "/api/v1/x", Meant),
            (PathRule::prefix("/api/v1"), "/api/v2", NotMeant),
            (PathRule::prefix("/"), "/", Meant),
            (PathRule::prefix("/"), "/x", Meant),
            (PathRule::prefix("/"), "*", NotMeant),
            (PathRule::prefix("/"), "", NotMeant),
            (exact("/api"), "/api", Meant),
            (exact("/api"), "/api/", NotMeant),
            (exact("/api"), "/api/x", NotMeant),
            (exact("/api/"), "/api", NotMeant),
            (exact("/"), "/", Meant),
            (PathRule::prefix("/.well-known"), "/.well-known/x", Meant),
            (PathRule::prefix("/a"), "/a/..b/...", Meant),
        ] {
            assert_eq!(rule.read(Path::new(path)), expected, "{rule:?} {path}");
        }
    }

    #[test]
    fn paths_with_several_interpretations_are_doubtful() {
        let admin = PathRule::prefix("/admin");
        for path in [
            // The parent segment in every spelling, into the rule's path and out of it.
            "/api/../admin",
            "/admin/../api",
            "/api/%2e%2E/admin",
            "/api/.%2e/admin",
            "/api/..%2fadmin",
            "/api%2F..%2Fadmin",
            "/api/..;x=1/admin",
            "/api/..\\admin",
            "/api/..%5Cadmin",
            "/admin/.",
            "/./admin",
            "/admin/..",
            "/..",
            "/x/%2e",
            // Segments in another spelling.
            "/%61dmin",
            "/%61dmin/x",
            "/admin%2Fx",
            "/admin%2fx",
            "/admin%5cx",
            "/admin\\x",
            "//admin",
            "///admin/x",
            "/%2Fadmin",
            "/admin;x=1",
            "/admin;x=1/y",
            "/;x/admin",
        ] {
            assert_eq!(admin.read(Path::new(path)), Doubtful, "{path}");
        }
        let status = exact("/admin/status");
        for path in [
            "/admin//status",
            "/admin/status;x",
            "/admin%2Fstatus",
            "/admin/st%61tus",
        ] {
            assert_eq!(status.read(Path::new(path)), Doubtful, "{path}");
        }
    }

    #[test]
    fn irrelevant_characters_do_not_make_a_path_ambiguous() {
        let api = PathRule::prefix("/api");
        for path in [
            "/api/group%2Fproject",
            "/api/a//b",
            "/api/a;b=c",
            "/api/caf%C3%A9",
            "/api/100%",
            "/api/%zz",
            "/api/a\\b",
        ] {
            assert_eq!(api.read(Path::new(path)), Meant, "{path}");
        }
        for path in [
            "/files/a%2Fapi",
            "/files//api",
            "/x;/y",
            "/%61",
            "/%",
            "/ap;i",
            "/%61pix",
        ] {
            assert_eq!(api.read(Path::new(path)), NotMeant, "{path}");
        }
        assert_eq!(exact("/a/b").read(Path::new("/a/b/;c")), NotMeant);
    }

    #[test]
    fn path_of_a_rule_must_be_unambiguous() {
        for path in [
            "/",
            "/api",
            "/api/v1/",
            "/.well-known/x",
            "/@user/a:b",
            "/a...b",
        ] {
            assert!(PathRule::is_plain(path), "{path}");
        }
        for path in [
            "", "api", "/a//b", "/a/../b", "/a/.", "/a%20b", "/a;b", "/a\\b", "/é", "/a b", "/a?b",
            "/a#b", "/a\u{0}",
        ] {
            assert!(!PathRule::is_plain(path), "{path}");
        }
    }

    #[test]
    fn a_rule_covers_equal_and_narrower_rules() {
        for (rule, other, expected) in [
            (PathRule::prefix("/a"), PathRule::prefix("/a"), true),
            (PathRule::prefix("/a"), PathRule::prefix("/a/b"), true),
            (PathRule::prefix("/a"), PathRule::prefix("/ab"), false),
            (PathRule::prefix("/a/b"), PathRule::prefix("/a"), false),
            (PathRule::prefix("/"), PathRule::prefix("/"), true),
            (PathRule::prefix("/"), PathRule::prefix("/a"), true),
            (PathRule::prefix("/a"), exact("/a"), true),
            (PathRule::prefix("/a"), exact("/b"), false),
            (exact("/a"), exact("/a"), true),
            (exact("/a"), PathRule::prefix("/a"), false),
        ] {
            assert_eq!(rule.covers(&other), expected, "{rule:?} {other:?}");
        }
    }

    proptest::proptest! {
        /// A rule that matches a path after normalization never ignores the path silently.
        #[test]
        fn no_ambiguous_path_evades_a_rule(path in "/[adminAx./;%\\\\25cCfFeE6]{0,24}") {
            let admin = PathRule::prefix("/admin");
            let segments: Vec<u8> = freely(path.as_bytes()).collect();
            let found = segments == b"/admin" || segments.starts_with(b"/admin/");
            let reading = admin.read(Path::new(&path));
            proptest::prop_assert!(!found || reading != NotMeant, "{}", path);
            if goes_back(path.as_bytes()) {
                proptest::prop_assert_eq!(reading, Doubtful);
            }
        }
    }
}
