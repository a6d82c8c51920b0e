//! The target of a redirect: a text with placeholders for parts of the request.

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
    written: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Scheme,
    Host,
    Path,
    Rest,
    Query,
}

/// The parts of a request that a redirect may use.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'r> {
    /// The scheme of the client's connection: `http` or `https`.
    pub scheme: &'r str,
    /// The host without its port.
    pub host: &'r str,
    /// The path as it was sent.
    pub path: &'r str,
    /// The rest of the path after the route's prefix: empty, or a `/` and more.
    pub rest: &'r str,
    /// The query without the question mark.
    pub query: Option<&'r str>,
}

impl Template {
    /// The placeholders, as they are written.
    pub const PLACEHOLDERS: [&'static str; 5] =
        ["{scheme}", "{host}", "{path}", "{rest}", "{query}"];

    /// Reads a template.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the template.
    pub fn parse(written: &str) -> Result<Self, String> {
        if let Some(odd) = written.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(format!("expected no {odd:?} in it"));
        }
        let mut pieces = Vec::new();
        let mut rest = written;
        while let Some(at) = rest.find(['{', '}']) {
            let (text, more) = rest.split_at(at);
            let end = more.find('}').filter(|_| more.starts_with('{'));
            let Some(end) = end else {
                return Err("expected { and } around names only".to_owned());
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(text.to_owned()));
            }
            let (name, after) = more.split_at(end + 1);
            pieces.push(match name {
                "{scheme}" => Piece::Scheme,
                "{host}" => Piece::Host,
                "{path}" => Piece::Path,
                "{rest}" => Piece::Rest,
                "{query}" => Piece::Query,
                _ => {
                    return Err(format!(
                        "found {name}, expected one of {}",
                        Self::PLACEHOLDERS.join(", ")
                    ));
                }
            });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if !leads_somewhere(written) {
            return Err(
                "expected \"http://\", \"https://\" or \"{scheme}://\" and a host, or a path that begins with one / and \
                 then something of its own"
                    .to_owned(),
            );
        }
        Ok(Self {
            pieces,
            written: written.to_owned(),
        })
    }

    /// The template as written in the configuration.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Returns whether it uses the part of the path after the route's prefix.
    pub fn has_rest(&self) -> bool {
        self.pieces.contains(&Piece::Rest)
    }

    /// Fills in the parts of a request.
    pub fn fill(&self, parts: &Parts<'_>) -> String {
        let mut filled = String::with_capacity(self.written.len() + parts.path.len());
        for piece in &self.pieces {
            let text = match piece {
                Piece::Text(text) => text,
                Piece::Scheme => parts.scheme,
                Piece::Host => parts.host,
                Piece::Path => parts.path,
                Piece::Rest => parts.rest,
                Piece::Query => {
                    if parts.query.is_some() {
                        filled.push('?');
                    }
                    parts.query.unwrap_or_default()
                }
            };
            filled.push_str(text);
        }
        filled
    }
}

/// Returns whether the host of the redirect cannot be chosen by an attacker: parts of the request
/// come after a host, or after the first character of a path. Browsers read `//evil.example` and
/// `/\evil.example` as hosts.
fn leads_somewhere(written: &str) -> bool {
    let after = ["http://", "https://", "{scheme}://"]
        .iter()
        .find_map(|scheme| written.strip_prefix(scheme));
    if let Some(after) = after {
        // The host must end before any part that the client chose, except the host itself.
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        let host = after[..end].replace("{host}", "h");
        let host = (host.split_once('{')).map_or(host.as_str(), |(host, path)| {
            // A path and the part after a prefix begin with a slash, a query with a question mark.
            let known = ["path}", "rest}", "query}"]
                .iter()
                .any(|name| path.starts_with(name));
            if known { host } else { "" }
        });
        return !host.is_empty() && !host.starts_with(':') && !host.contains('@');
    }
    let mut letters = written.chars();
    letters.next() == Some('/')
        && letters
            .next()
            .is_none_or(|second| !matches!(second, '/' | '\\' | '{'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: Parts<'_> = Parts {
        scheme: "http",
        host: "example.com",
        path: "/old/x",
        rest: "/x",
        query: Some("a=b"),
    };

    #[test]
    fn template_is_filled_with_parts_of_the_request() {
        for (written, expected) in [
            (
                "https://{host}{path}{query}",
                "https://example.com/old/x?a=b",
            ),
            (
                "{scheme}://www.{host}:8443{path}",
                "http://www.example.com:8443/old/x",
            ),
            ("https://new.example/new{rest}", "https://new.example/new/x"),
            ("https://new.example{rest}", "https://new.example/x"),
            ("/new{rest}{query}", "/new/x?a=b"),
            ("/", "/"),
            ("/new#top", "/new#top"),
        ] {
            let template = Template::parse(written).expect(written);
            assert_eq!(template.fill(&PARTS), expected);
            assert_eq!(template.written(), written);
        }
        let template = Template::parse("/new{query}").expect("a template");
        let parts = Parts {
            query: None,
            ..PARTS
        };
        assert_eq!(template.fill(&parts), "/new");
    }

    #[test]
    fn a_client_cannot_choose_the_host_of_a_redirect() {
        for written in [
            "",
            "{path}",
            "{rest}",
            "//{host}",
            "//evil.example",
            "/\\evil.example",
            "/{path}",
            "new",
            "ftp://a/",
            "https://",
            "https://{path}",
            "https://{rest}",
            "https:///x",
            "https://a@{host}/",
            "https://{hots}/",
            "https://example.com{scheme}/",
            "javascript:alert(1)",
            "https://a/ b",
            "https://a/\r\nx: y",
            "/é",
            "/a{b",
            "/a}b",
            "/a{}b",
        ] {
            assert!(Template::parse(written).is_err(), "{written}");
        }
    }
}
