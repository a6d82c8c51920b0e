//! Heads of requests. RFC 9112 §3

use super::fields::{self, Framing};
use super::head::{is_head_so_far, split_first_line};
use super::{BadKind, BadMessage, BodyLength, HeadLimits};
use crate::fields::Fields;
use crate::target;
use bytes::Bytes;
use http::{Method, Uri, Version};

/// The head of a request, and its consequences for the connection.
#[derive(Debug)]
pub struct RequestHead {
    /// The method as it was sent; methods are case-sensitive.
    pub method: Method,
    /// The target, in any of its four forms.
    pub target: Uri,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// Every field, in the order of arrival.
    pub headers: Fields,
    /// The length of the body that follows.
    pub body: BodyLength,
    /// Whether the client keeps the connection open after the request.
    pub keep_alive: bool,
    /// Whether the client waits for 100 before it sends the body.
    pub expects_continue: bool,
    /// Whether the client requests another protocol in `Upgrade`.
    pub upgrade: bool,
}

/// Parses a whole head. `headers` is empty; it may have capacity from an earlier head.
pub fn parse_request(
    head: &Bytes,
    limits: HeadLimits,
    headers: Fields,
) -> Result<RequestHead, BadMessage> {
    // If it had arrived in parts, this error would have been found before any other.
    parse(head, limits, headers).map_err(|bad| {
        if is_head_so_far(head) {
            bad
        } else {
            BadMessage::NOT_A_HEAD
        }
    })
}

fn parse(head: &Bytes, limits: HeadLimits, mut headers: Fields) -> Result<RequestHead, BadMessage> {
    let (line, lines) = split_first_line(head)?;
    let (method, target, version) = parse_start(line)?;
    let target = parse_target(head, target, &method)?;
    let said = fields::take(lines, limits.fields_max, &mut headers)?;
    let is_old = version == Version::HTTP_10;
    check(said, is_old)?;
    if method == Method::CONNECT && length(said) != BodyLength::Known(0) {
        // The octets that follow belong to the tunnel: RFC 9112 §6.3 has no body for CONNECT.
        return Err(BadMessage::malformed("CONNECT has no body"));
    }
    Ok(RequestHead {
        method,
        target,
        version,
        headers,
        body: length(said),
        keep_alive: !said.close && (!is_old || said.keep_alive),
        // An HTTP/1.0 client cannot mean it. RFC 9110 §10.1.1
        expects_continue: said.expects_continue && !is_old,
        upgrade: said.upgrade && !is_old,
    })
}

/// Splits a request line at its two spaces. RFC 9112 §3
fn parse_start(line: &[u8]) -> Result<(Method, &[u8], Version), BadMessage> {
    let mut parts = line.splitn(3, |octet| *octet == b' ');
    let (Some(method), Some(target), Some(version)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(BadMessage::malformed("the request line is not valid"));
    };
    let method = Method::from_bytes(method)
        .map_err(|_| BadMessage::malformed("the method is not a token"))?;
    let version = match version {
        b"HTTP/1.1" => Version::HTTP_11,
        b"HTTP/1.0" => Version::HTTP_10,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() && *major != b'1' =>
        {
            return Err(BadMessage {
                kind: BadKind::Version,
                ..BadMessage::VERSION
            });
        }
        _ => return Err(BadMessage::VERSION),
    };
    Ok((method, target, version))
}

fn length(said: Framing) -> BodyLength {
    if said.chunked {
        return BodyLength::Chunked;
    }
    BodyLength::Known(said.length.unwrap_or(0))
}

fn check(said: Framing, is_old: bool) -> Result<(), BadMessage> {
    // An HTTP/1.0 client does not know chunks. If it sends the field, an intermediary may have read
    // the message in another way. RFC 9112 §6.1
    if said.chunked && is_old {
        return Err(BadMessage::malformed("HTTP/1.0 has no transfer codings"));
    }
    match said.hosts {
        0 if !is_old => Err(BadMessage::malformed("the host field is missing")),
        0 | 1 => Ok(()),
        _ => Err(BadMessage::malformed("more than one host field")),
    }
}

/// Parses one of the four forms of a target (RFC 9112 §3.2): `/path`, `http://host/path`, `*`, and
/// host and port, which only CONNECT has.
fn parse_target(head: &Bytes, target: &[u8], method: &Method) -> Result<Uri, BadMessage> {
    if let Some(reason) = target::fault(target) {
        return Err(BadMessage::malformed(reason));
    }
    let shared = head.slice_ref(target);
    let uri = Uri::from_maybe_shared(shared).map_err(|error| {
        if target.len() >= usize::from(u16::MAX) {
            return BadMessage {
                kind: BadKind::TargetTooLong,
                reason: "the target is too long",
            };
        }
        let _ = error;
        BadMessage::malformed("the target is not valid")
    })?;
    let is_authority = uri.scheme().is_none() && uri.authority().is_some();
    if is_authority != (*method == Method::CONNECT) {
        return Err(BadMessage::malformed(
            "the target's form does not fit the method",
        ));
    }
    if is_authority && !is_host_and_port(&uri) {
        return Err(BadMessage::malformed(
            "the target of CONNECT is not a host and a port",
        ));
    }
    Ok(uri)
}

/// Whether the target has host and port and no user, as the authority form requires. RFC 9110
/// §9.3.6
fn is_host_and_port(uri: &Uri) -> bool {
    let has_host = uri.host().is_some_and(|host| !host.is_empty());
    let has_user = (uri.authority()).is_some_and(|authority| authority.as_str().contains('@'));
    has_host && !has_user && uri.port_u16().is_some_and(|port| port != 0)
}
