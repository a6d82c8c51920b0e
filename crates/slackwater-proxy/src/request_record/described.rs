//! Texts of a request's head that every record has.

use core::ops::Range;
use http::uri::Authority;
use slackwater_http::{Request, Value};

/// Larger memory is not kept for another record.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// The target of a request, and the first value of some fields, copied into one text. A copy
/// outlives the head, which is changed for the replica.
#[derive(Debug, Default)]
pub(crate) struct Described {
    text: Vec<u8>,
    path: Range<usize>,
    query: Option<Range<usize>>,
    host: Option<Range<usize>>,
    referer: Option<Range<usize>>,
    user_agent: Option<Range<usize>>,
}

/// No texts.
pub(super) static NONE: Described = Described {
    text: Vec::new(),
    path: 0..0,
    query: None,
    host: None,
    referer: None,
    user_agent: None,
};

impl Described {
    /// Copies the texts of a request into empty memory. The query is left out if no consumer shows
    /// it.
    pub(super) fn read<B>(&mut self, request: &Request<B>, with_query: bool) {
        // All fields are named, so that none keeps its value from before.
        let Self {
            text,
            path,
            query,
            host,
            referer,
            user_agent,
        } = self;
        let uri = request.uri();
        let authority = uri.authority().map(Authority::as_str);
        // The target of CONNECT has no path: it is a host and a port.
        let of_path = match uri.path() {
            "" => authority.unwrap_or_default(),
            path => path,
        };
        let of_query = uri.query().filter(|_| with_query).map(str::as_bytes);
        let [host_field, of_referer, of_user_agent] = request
            .headers()
            .get_each(["host", "referer", "user-agent"])
            .map(|value| value.map(Value::as_bytes));
        let of_host = authority.map(str::as_bytes).or(host_field);
        let length = |text: Option<&[u8]>| text.map_or(0, <[u8]>::len);
        let fields = length(of_host) + length(of_referer) + length(of_user_agent);
        // Doubling the memory would exceed the limit with texts that are far below it.
        text.reserve_exact(of_path.len() + length(of_query) + fields);
        let mut add = |bytes: &[u8]| {
            let start = text.len();
            text.extend_from_slice(bytes);
            start..text.len()
        };
        *host = of_host.map(&mut add);
        *path = add(of_path.as_bytes());
        *query = of_query.map(&mut add);
        *referer = of_referer.map(&mut add);
        *user_agent = of_user_agent.map(&mut add);
    }

    fn at(&self, place: Option<&Range<usize>>) -> Option<&[u8]> {
        self.text.get(place?.clone())
    }

    /// The path of the target; for CONNECT, which has none, the host and port.
    pub(crate) fn path(&self) -> &[u8] {
        self.at(Some(&self.path)).unwrap_or_default()
    }

    /// The query of the target, if a consumer shows it.
    pub(crate) fn query(&self) -> Option<&[u8]> {
        self.at(self.query.as_ref())
    }

    /// The requested host without a user name: from the target, otherwise from `Host`.
    pub(crate) fn host(&self) -> Option<&[u8]> {
        self.at(self.host.as_ref()).map(without_user)
    }

    /// The first `Referer`.
    pub(crate) fn referer(&self) -> Option<&[u8]> {
        self.at(self.referer.as_ref())
    }

    /// The first `User-Agent`.
    pub(crate) fn user_agent(&self) -> Option<&[u8]> {
        self.at(self.user_agent.as_ref())
    }

    /// Removes the texts, and keeps their memory for another record, unless that is much.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        if self.text.capacity() > KEPT_BYTES_MAX {
            self.text = Vec::new();
        }
    }
}

/// Removes a user name and password before the host, which `Host` must not contain anyway.
fn without_user(authority: &[u8]) -> &[u8] {
    // Hosts are short, and hardly any has a user name: this finds that out soonest.
    let has_at = |word: &[u8; 8]| {
        // The highest bit of the first byte that is an `@` is set, perhaps also one of another.
        let differs = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b'@'; 8]);
        let zeros = differs.wrapping_sub(u64::from_le_bytes([1; 8])) & !differs;
        zeros & u64::from_le_bytes([0x80; 8]) != 0
    };
    let is_without = match authority.last_chunk() {
        // The last word may begin within the one before.
        Some(last) => !has_at(last) && !authority.as_chunks().0.iter().any(has_at),
        None => !authority.contains(&b'@'),
    };
    if is_without {
        return authority;
    }
    let user_end = memchr::memrchr(b'@', authority);
    user_end.map_or(authority, |at| &authority[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, fields: &[(&str, &str)]) -> Request<()> {
        let method = if target.starts_with('/') {
            "GET"
        } else {
            "CONNECT"
        };
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into()
    }

    #[test]
    fn first_values_are_copied_and_those_of_an_earlier_record_are_gone() {
        let mut described = Described::default();
        let fields = [
            ("user-agent", "a browser"),
            ("host", "x.example"),
            ("host", "y.example"),
            ("cookie", "secret"),
            ("referer", ""),
        ];
        described.read(&request("/a?q", &fields), true);
        assert_eq!(described.path(), b"/a");
        assert_eq!(described.query(), Some(&b"q"[..]));
        assert_eq!(described.host(), Some(&b"x.example"[..]));
        assert_eq!(described.user_agent(), Some(&b"a browser"[..]));
        assert_eq!(described.referer(), Some(&b""[..]));
        described.clear();
        assert_eq!((described.path(), described.query()), (&b""[..], None));
        assert_eq!((described.host(), described.user_agent()), (None, None));
        described.read(&request("/", &[("referer", "z")]), true);
        assert_eq!((described.path(), described.query()), (&b"/"[..], None));
        assert_eq!(described.referer(), Some(&b"z"[..]));
        assert_eq!((described.host(), described.user_agent()), (None, None));
    }

    #[test]
    fn the_query_is_copied_only_for_a_consumer_that_shows_it() {
        let mut described = Described::default();
        described.read(&request("/a?secret", &[]), false);
        assert_eq!((described.path(), described.query()), (&b"/a"[..], None));
        assert_eq!(described.text, b"/a");
    }

    #[test]
    fn memory_is_kept_up_to_the_limit() {
        let mut described = Described::default();
        // Together with the path, the third fills the limit. The fourth exceeds it.
        for (length, is_kept) in [
            (KEPT_BYTES_MAX / 2, true),
            (KEPT_BYTES_MAX / 2 + 1, true),
            (KEPT_BYTES_MAX - 1, true),
            (KEPT_BYTES_MAX, false),
        ] {
            let long = "x".repeat(length);
            described.read(&request("/", &[("user-agent", &long)]), true);
            let text = described.text.as_ptr();
            described.clear();
            assert_eq!(described.text.capacity() > 0, is_kept, "{length}");
            described.read(&request("/?of=another", &[("host", "x.example")]), true);
            assert!(!is_kept || described.text.as_ptr() == text, "{length}");
            described.clear();
        }
    }

    #[test]
    fn the_host_of_the_target_comes_before_the_field() {
        let mut described = Described::default();
        let fields = [("host", "field.example")];
        described.read(&request("http://me:secret@a.example:1/b", &fields), true);
        assert_eq!(described.host(), Some(&b"a.example:1"[..]));
        assert_eq!(described.path(), b"/b");
        described.clear();
        described.read(&request("b.example:443", &fields), true);
        assert_eq!(described.host(), Some(&b"b.example:443"[..]));
        assert_eq!(described.path(), b"b.example:443", "CONNECT has no path");
    }

    #[test]
    fn a_user_name_is_removed_wherever_it_ends() {
        for host in ["", "h", "h.example", "a.longer.example:8080"] {
            assert_eq!(without_user(host.as_bytes()), host.as_bytes());
            for length in 0..20 {
                let authority = format!("{}@{host}", "u".repeat(length));
                assert_eq!(
                    without_user(authority.as_bytes()),
                    host.as_bytes(),
                    "{length}"
                );
            }
        }
    }
}
