//! Heads of responses. RFC 9112 §4

use super::fields::{self, FieldRoom, Framing};
use super::head::check_lines;
use super::{BadMessage, BodyLength, HeadLimits};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

/// The head of a response, and its consequences for the connection.
#[derive(Debug)]
pub struct ResponseHead {
    /// After a status below 200, except 101, another response follows.
    pub status: StatusCode,
    /// Every field, in the order of arrival.
    pub headers: HeaderMap,
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
    mut headers: HeaderMap,
) -> Result<ResponseHead, BadMessage> {
    check_lines(head)?;
    let mut room = FieldRoom::default();
    let mut parsed = httparse::Response::new(&mut []);
    let status = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, head, room.lend(limits.fields_max))
        .map_err(fields::reason)?;
    let (httparse::Status::Complete(_), Some(code), Some(minor)) =
        (status, parsed.code, parsed.version)
    else {
        return Err(BadMessage::malformed("the head is not complete"));
    };
    let status = StatusCode::from_u16(code)
        .map_err(|_| BadMessage::malformed("the status line is not valid"))?;
    let said = fields::take(head, parsed.headers, &mut headers)?;
    let is_old = minor == 0;
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
    let upgrade = (said.upgrade).then(|| headers.get(header::UPGRADE).cloned());
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
        upgrade: upgrade.flatten(),
    })
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
