//! Heads of responses. RFC 9112 §4

use super::fields::{self, Framing};
use super::head::split_first_line;
use super::{BadMessage, BodyLength, HeadLimits};
use crate::fields::Fields;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};

/// The head of a response, and its consequences for the connection.
#[derive(Debug)]
pub struct ResponseHead {
    /// After a status below 200, except 101, another response follows.
    pub status: StatusCode,
    /// Every field, in the order of arrival.
    pub headers: Fields,
    /// The length of the body that follows.
    pub body: BodyLength,
    /// Whether the connection stays open after the response.
    pub keep_alive: bool,
    /// Whether no further HTTP message follows: the connection has changed to another protocol, or
    /// is a tunnel.
    pub is_tunnel: bool,
    /// The protocol that it changes to, if the response names one.
    pub upgrade: Option<HeaderValue>,
}

/// Parses a whole head, the answer to a request with `method`. `headers` is empty; it may have
/// capacity from an earlier head.
pub fn parse_response(
    head: &Bytes,
    method: &Method,
    limits: HeadLimits,
    mut headers: Fields,
) -> Result<ResponseHead, BadMessage> {
    let (line, lines) = split_first_line(head)?;
    let (is_old, status) = parse_start(line)?;
    let said = fields::take(lines, limits.fields_max, &mut headers)?;
    if said.chunked && is_old {
        return Err(BadMessage::malformed("HTTP/1.0 has no transfer codings"));
    }
    let opens_tunnel = *method == Method::CONNECT && status.is_success();
    let body = if opens_tunnel {
        BodyLength::Known(0)
    } else {
        length(said, status, method)
    };
    // A sender that announces a body where none is allowed may send one, which would then be read
    // as the next response.
    let is_doubtful =
        status == StatusCode::NO_CONTENT && (said.chunked || said.length.is_some_and(|it| it > 0));
    let upgrade = (said.upgrade)
        .then(|| headers.get(header::UPGRADE).map(HeaderValue::from))
        .flatten();
    if status == StatusCode::NO_CONTENT {
        // It has no content, so a length is only misleading. RFC 9110 §8.6
        headers.remove(header::CONTENT_LENGTH);
    }
    if opens_tunnel {
        // They have no meaning here, and a recipient that obeys them would take the tunnel for a
        // body. RFC 9110 §9.3.6
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::TRANSFER_ENCODING);
    }
    let is_tunnel = opens_tunnel || status == StatusCode::SWITCHING_PROTOCOLS;
    Ok(ResponseHead {
        status,
        headers,
        body,
        keep_alive: !said.close
            && (!is_old || said.keep_alive)
            && body != BodyLength::UntilClose
            && !is_doubtful
            && !is_tunnel,
        is_tunnel,
        upgrade,
    })
}

/// Returns whether the version is HTTP/1.0, and the status. RFC 9112 §4
fn parse_start(line: &[u8]) -> Result<(bool, StatusCode), BadMessage> {
    let (is_old, rest) = match line.split_first_chunk() {
        Some((b"HTTP/1.1 ", rest)) => (false, rest),
        Some((b"HTTP/1.0 ", rest)) => (true, rest),
        _ => return Err(BadMessage::VERSION),
    };
    let (code, reason) = rest.split_at_checked(3).unwrap_or_default();
    let is_text = matches!(reason, [] | [b' ', ..])
        && (reason.iter()).all(|octet| !octet.is_ascii_control() || *octet == b'\t');
    StatusCode::from_bytes(code)
        .ok()
        .filter(|_| is_text)
        .map(|status| (is_old, status))
        .ok_or(BadMessage::malformed("the status line is not valid"))
}

/// Returns the length of the body. RFC 9112 §6.3
fn length(said: Framing, status: StatusCode, method: &Method) -> BodyLength {
    let has_none = *method == Method::HEAD
        || status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    match said.length {
        _ if has_none => BodyLength::Known(0),
        _ if said.chunked => BodyLength::Chunked,
        Some(length) => BodyLength::Known(length),
        None => BodyLength::UntilClose,
    }
}
