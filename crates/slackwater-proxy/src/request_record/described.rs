//! Texts of a request's head that every record has.

use core::ops::Range;
use http::uri::Authority;
use slackwater_http::{Request, Value};

/// Longer texts are not kept for another record.
const KEPT_BYTES_MAX: usize = 1 << 10;

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
    /// Copies the texts of a request, in place of those of an earlier one.
    pub(super) fn read<B>(&mut self, request: &Request<B>) {
        // All fields are named, so that none keeps its value from before.
        let Self {
            text,
            path,
            query,
            host,
            referer,
            user_agent,
        } = self;
        text.clear();
        let mut add = |bytes: &[u8]| {
            let start = text.len();
            text.extend_from_slice(bytes);
            start..text.len()
        };
        let uri = request.uri();
        let authority = uri.authority().map(Authority::as_str);
        // The target of CONNECT has no path: it is a host and a port.
        let path_or_authority = match uri.path() {
            "" => authority.unwrap_or_default(),
            path => path,
        };
        *path = add(path_or_authority.as_bytes());
        *query = uri.query().map(|query| add(query.as_bytes()));
        let [host_value, referer_value, user_agent_value] =
            (request.headers()).get_each(["host", "referer", "user-agent"]);
        let host_field = host_value.map(Value::as_bytes);
        *host = authority.map(str::as_bytes).or(host_field).map(&mut add);
        *referer = referer_value.map(|value| add(value.as_bytes()));
        *user_agent = user_agent_value.map(|value| add(value.as_bytes()));
    }

    fn at(&self, place: Option<&Range<usize>>) -> Option<&[u8]> {
        self.text.get(place?.clone())
    }

    /// The path of the target; for CONNECT, which has none, the host and port.
    pub(crate) fn path(&self) -> &[u8] {
        self.at(Some(&self.path)).unwrap_or_default()
    }

    /// The query of the target.
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

    /// Keeps its memory for another record, unless that is much.
    pub(super) fn shrink_long(&mut self) {
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
        described.read(&request("/a?q", &fields));
        assert_eq!(described.path(), b"/a");
        assert_eq!(described.query(), Some(&b"q"[..]));
        assert_eq!(described.host(), Some(&b"x.example"[..]));
        assert_eq!(described.user_agent(), Some(&b"a browser"[..]));
        assert_eq!(described.referer(), Some(&b""[..]));
        described.read(&request("/", &[("referer", "z")]));
        assert_eq!((described.path(), described.query()), (&b"/"[..], None));
        assert_eq!(described.referer(), Some(&b"z"[..]));
        assert_eq!((described.host(), described.user_agent()), (None, None));
        described.shrink_long();
        assert_eq!(described.referer(), Some(&b"z"[..]));
        let long = "x".repeat(KEPT_BYTES_MAX + 1);
        described.read(&request("/", &[("host", &long)]));
        described.shrink_long();
        assert_eq!(described.text.capacity(), 0);
    }

    #[test]
    fn the_host_of_the_target_comes_before_the_field() {
        let mut described = Described::default();
        let fields = [("host", "field.example")];
        described.read(&request("http://me:secret@a.example:1/b", &fields));
        assert_eq!(described.host(), Some(&b"a.example:1"[..]));
        assert_eq!(described.path(), b"/b");
        described.read(&request("b.example:443", &fields));
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
