//! Heads, chunks and trailers to send.
//!
//! Framing is written here and nowhere else: `Content-Length` and `Transfer-Encoding` among
//! the fields are left out. So a head always agrees with what is sent.

use crate::fields::Fields;
use bytes::{BufMut, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri, Version};

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The response that a client with `Expect: 100-continue` awaits before it sends the body. RFC 9110
/// §10.1.1
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How a body is sent, as far as its head announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body, and no field about it.
    Absent,
    /// No body; a `Content-Length` among the fields gives the length that it would have. HEAD and
    /// 304
    Described,
    /// This many octets.
    Known(u64),
    /// Chunks: each starts with [`encode_chunk_start`], and [`LAST_CHUNK`] or [`encode_trailers`]
    /// ends them.
    Chunked,
    /// Everything until the connection ends.
    UntilClose,
}

/// Parts of a response's head beside its fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseExtras<'a> {
    /// `close` or `keep-alive`, if it must be sent.
    pub connection: Option<&'static str>,
    /// The protocol to which the connection changes.
    pub upgrade: Option<&'a HeaderValue>,
    /// A date, for responses that have none.
    pub date: Option<&'a [u8]>,
    /// An encoded field, with its line end.
    pub line: Option<&'a [u8]>,
}

/// Writes a request's head. `upgrade` requests another protocol.
pub fn encode_request(
    out: &mut BytesMut,
    method: &Method,
    uri: &Uri,
    headers: &Fields,
    framing: Framing,
    upgrade: Option<&HeaderValue>,
) {
    out.put_slice(method.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(target(uri).as_bytes());
    out.put_slice(b" HTTP/1.1\r\n");
    fields(out, headers, framing);
    if framing == Framing::Absent && expects_a_body(method) {
        length(out, 0);
    }
    if let Some(protocol) = upgrade {
        out.put_slice(b"connection: upgrade\r\n");
        field(out, &header::UPGRADE, protocol);
    }
    out.put_slice(b"\r\n");
}

/// Returns path and query, or host and port for CONNECT; only CONNECT has these alone. RFC 9112
/// §3.2.3
fn target(uri: &Uri) -> &str {
    match (uri.path_and_query(), uri.authority()) {
        (Some(target), _) => target.as_str(),
        (None, Some(authority)) => authority.as_str(),
        (None, None) => "/",
    }
}

/// Whether a request with this method must announce its body's length, even if there is none. RFC
/// 9110 §8.6
fn expects_a_body(method: &Method) -> bool {
    *method == Method::POST || *method == Method::PUT || *method == Method::PATCH
}

/// Writes a response's head, final or not.
pub fn encode_response(
    out: &mut BytesMut,
    version: Version,
    status: StatusCode,
    headers: &Fields,
    framing: Framing,
    extras: ResponseExtras<'_>,
) {
    status_line(out, version, status);
    fields(out, headers, framing);
    if let Some(protocol) = extras.upgrade {
        out.put_slice(b"connection: upgrade\r\n");
        field(out, &header::UPGRADE, protocol);
    }
    if let Some(connection) = extras.connection {
        out.put_slice(b"connection: ");
        out.put_slice(connection.as_bytes());
        out.put_slice(b"\r\n");
    }
    if let Some(line) = extras.line {
        out.put_slice(line);
    }
    if let Some(date) = extras.date {
        out.put_slice(b"date: ");
        out.put_slice(date);
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
}

fn status_line(out: &mut BytesMut, version: Version, status: StatusCode) {
    if (version, status) == (Version::HTTP_11, StatusCode::OK) {
        return out.put_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.put_slice(if version == Version::HTTP_10 {
        b"HTTP/1.0 "
    } else {
        b"HTTP/1.1 "
    });
    out.put_slice(status.as_str().as_bytes());
    out.put_u8(b' ');
    out.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.put_slice(b"\r\n");
}

/// Writes the size of a chunk, before its data. CR LF follows the data.
pub fn encode_chunk_start(out: &mut BytesMut, data_len: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut line = [0; 2 * size_of::<usize>()];
    let mut at = line.len();
    let mut left = data_len;
    loop {
        at -= 1;
        line[at] = DIGITS[left & 15];
        left >>= 4;
        if left == 0 {
            break;
        }
    }
    out.put_slice(&line[at..]);
    out.put_slice(b"\r\n");
}

/// Writes the end of a chunked body that has trailers.
pub fn encode_trailers(out: &mut BytesMut, trailers: &HeaderMap) {
    out.put_slice(b"0\r\n");
    fields(out, &Fields::from(trailers), Framing::Absent);
    out.put_slice(b"\r\n");
}

fn fields(out: &mut BytesMut, headers: &Fields, framing: Framing) {
    let left_out: &[_] = match framing {
        Framing::Described => &["transfer-encoding"],
        _ => &["transfer-encoding", "content-length"],
    };
    headers.write_without(left_out, |lines| out.put_slice(lines));
    match framing {
        Framing::Known(bytes) => length(out, bytes),
        Framing::Chunked => out.put_slice(b"transfer-encoding: chunked\r\n"),
        Framing::Absent | Framing::Described | Framing::UntilClose => (),
    }
}

fn field(out: &mut BytesMut, name: &HeaderName, value: &HeaderValue) {
    for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
        out.put_slice(part);
    }
}

fn length(out: &mut BytesMut, bytes: u64) {
    const NAME: &[u8; 16] = b"content-length: ";
    // Name, digits and line end, put together from the end.
    let mut line = [0; NAME.len() + 20 + 2];
    let mut at = line.len() - 2;
    line[at..].copy_from_slice(b"\r\n");
    let mut left = bytes;
    loop {
        at -= 1;
        // A digit fits into an octet.
        line[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    line[at - NAME.len()..at].copy_from_slice(NAME);
    out.put_slice(&line[at - NAME.len()..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).expect("text")
    }

    fn request(method: &Method, framing: Framing) -> String {
        let uri = Uri::from_static("/a?b");
        let fields = Fields::from_iter([
            ("host", "x"),
            ("content-length", "99"),
            ("transfer-encoding", "chunked"),
        ]);
        text(|out| encode_request(out, method, &uri, &fields, framing, None))
    }

    #[test]
    fn request_head_has_exactly_one_framing() {
        let head = "/a?b HTTP/1.1\r\nhost: x\r\n";
        for (method, framing, says) in [
            (Method::GET, Framing::Absent, ""),
            (Method::DELETE, Framing::Absent, ""),
            (Method::POST, Framing::Absent, "content-length: 0\r\n"),
            (Method::PUT, Framing::Absent, "content-length: 0\r\n"),
            (Method::PATCH, Framing::Absent, "content-length: 0\r\n"),
            (Method::GET, Framing::Known(0), "content-length: 0\r\n"),
            (
                Method::POST,
                Framing::Known(u64::MAX),
                "content-length: 18446744073709551615\r\n",
            ),
            (
                Method::GET,
                Framing::Chunked,
                "transfer-encoding: chunked\r\n",
            ),
        ] {
            let wrote = request(&method, framing);
            assert_eq!(wrote, format!("{method} {head}{says}\r\n"));
        }
    }

    #[test]
    fn upgrade_request_has_connection_upgrade() {
        let (method, uri, fields) = (Method::GET, Uri::from_static("/"), Fields::new());
        let protocol = HeaderValue::from_static("websocket");
        let upgrade = Some(&protocol);
        let wrote =
            text(|out| encode_request(out, &method, &uri, &fields, Framing::Absent, upgrade));
        assert_eq!(
            wrote,
            "GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        );
    }

    #[test]
    fn response_head_has_framing_and_connection_fields() {
        let mut headers = Fields::new();
        headers.insert("content-length", "99");
        headers.append("a", "1");
        headers.append("a", "2");
        let write = |version, framing, extras| {
            text(|out| {
                encode_response(out, version, StatusCode::OK, &headers, framing, extras);
            })
        };
        let none = ResponseExtras::default();
        let fields = "a: 1\r\na: 2\r\n";
        for (framing, says) in [
            (Framing::Absent, ""),
            (Framing::UntilClose, ""),
            (Framing::Known(12), "content-length: 12\r\n"),
            (Framing::Chunked, "transfer-encoding: chunked\r\n"),
        ] {
            assert_eq!(
                write(Version::HTTP_11, framing, none),
                format!("HTTP/1.1 200 OK\r\n{fields}{says}\r\n")
            );
        }
        assert_eq!(
            write(Version::HTTP_10, Framing::Described, none),
            format!("HTTP/1.0 200 OK\r\ncontent-length: 99\r\n{fields}\r\n")
        );
        let extras = ResponseExtras {
            connection: Some("close"),
            date: Some(b"now"),
            upgrade: None,
            line: Some(b"b: 3\r\n"),
        };
        assert_eq!(
            write(Version::HTTP_11, Framing::Absent, extras),
            format!("HTTP/1.1 200 OK\r\n{fields}connection: close\r\nb: 3\r\ndate: now\r\n\r\n")
        );
    }

    #[test]
    fn fields_of_any_length_are_written_whole() {
        let name = HeaderName::from_static("x-a");
        let around = name.as_str().len() + ": \r\n".len();
        for length in [0, 1, 128 - around, 128 - around + 1, 9_000] {
            let value = "v".repeat(length);
            let sent = HeaderValue::try_from(&value).expect("a value");
            let wrote = text(|out| field(out, &name, &sent));
            assert_eq!(wrote, format!("x-a: {value}\r\n"), "{length}");
            let headers = Fields::from_iter([(&name, &sent)]);
            let wrote = text(|out| fields(out, &headers, Framing::Absent));
            assert_eq!(wrote, format!("x-a: {value}\r\n"), "{length}");
        }
    }

    #[test]
    fn chunk_sizes_are_hexadecimal() {
        for (size, line) in [(0, "0\r\n"), (10, "a\r\n"), (65_536, "10000\r\n")] {
            assert_eq!(text(|out| encode_chunk_start(out, size)), line);
        }
    }

    #[test]
    fn trailers_end_a_chunked_body() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("1"));
        trailers.insert("content-length", HeaderValue::from_static("1"));
        assert_eq!(
            text(|out| encode_trailers(out, &trailers)),
            "0\r\nx-sum: 1\r\n\r\n"
        );
    }
}
