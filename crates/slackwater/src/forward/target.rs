//! Where a request is for: a target and a host that every reader takes for the same ones, put where the replica's protocol
//! has them.

use super::hygiene::{Refusal, bad_request};
use super::origin::Origin;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Uri, header};

/// HTTP/2 names the host in `:authority`, in `Host`, or alike in both, and never a user. RFC 9113 §8.3.1
pub(super) fn check_http2(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    match (uri.authority(), headers.get(header::HOST)) {
        (None, None) => Err(bad_request("neither :authority nor host names a host")),
        (Some(authority), _) if authority.as_str().contains('@') => {
            Err(bad_request("a user stands in :authority"))
        }
        (Some(authority), Some(host))
            if !host
                .as_bytes()
                .eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Err(bad_request(":authority and host name different hosts"))
        }
        _ => Ok(()),
    }
}

/// HTTP/1.1: the host in its field, the path in the request line. A target that names its host overrides the field.
pub(super) fn target_http1<B>(request: &mut Request<B>, origin: &Origin) -> Result<(), Refusal> {
    if let Some(authority) = request.uri().authority() {
        let host = without_user_info(authority);
        if !is_host(host.as_bytes()) {
            return Err(bad_request("the target's host is not one"));
        }
        let host =
            HeaderValue::from_str(host).map_err(|_| bad_request("the target's host is not one"))?;
        let path = with_path(request.uri().path_and_query().cloned())?;
        request.headers_mut().insert(header::HOST, host);
        *request.uri_mut() = Uri::from(path);
    } else if let Some(host) = request.headers().get(header::HOST) {
        if !is_host(host.as_bytes()) {
            return Err(bad_request("the host field is not a host"));
        }
    } else {
        let host = HeaderValue::from_str(origin.local.as_str())
            .map_err(|_| bad_request("the host field is missing"))?;
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(())
}

/// CONNECT: a host and a port in the request line, and the same in the field. RFC 9112 §3.2.3
pub(super) fn target_connect<B>(request: &mut Request<B>) -> Result<(), Refusal> {
    let authority = request.uri().authority().map(Authority::as_str);
    let host = authority.filter(|host| is_host(host.as_bytes()));
    let host = host.and_then(|host| HeaderValue::from_str(host).ok());
    let host = host.ok_or_else(|| bad_request("the target's host is not one"))?;
    request.headers_mut().insert(header::HOST, host);
    Ok(())
}

/// HTTP/2: host and path both in the target.
pub(super) fn target_http2<B>(request: &mut Request<B>, origin: &Origin) -> Result<(), Refusal> {
    let host = request.headers_mut().remove(header::HOST);
    let authority = match (request.uri().authority(), host) {
        (Some(authority), _) => {
            let host = without_user_info(authority);
            if !is_host(host.as_bytes()) {
                return Err(bad_request("the target's host is not one"));
            }
            if host.len() == authority.as_str().len()
                && request.uri().scheme() == Some(&Scheme::HTTP)
                && !lacks_path(request.uri().path_and_query())
            {
                return Ok(());
            }
            Authority::try_from(host).map_err(|_| bad_request("the target's host is not one"))?
        }
        (None, Some(host)) if !host.is_empty() => {
            if !is_host(host.as_bytes()) {
                return Err(bad_request("the host field is not a host"));
            }
            Authority::try_from(host.as_bytes())
                .map_err(|_| bad_request("the host field is not a host"))?
        }
        (None, _) => origin.local.clone(),
    };
    let mut parts = core::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(authority);
    parts.path_and_query = Some(with_path(parts.path_and_query)?);
    *request.uri_mut() =
        Uri::from_parts(parts).map_err(|_| bad_request("the target is not valid"))?;
    Ok(())
}

/// Whether a target has a query but no path.
fn lacks_path(target: Option<&PathAndQuery>) -> bool {
    target.is_some_and(|target| target.as_str().starts_with('?'))
}

/// A path is never empty but in a target that names its host. RFC 9112 §3.2.1
fn with_path(target: Option<PathAndQuery>) -> Result<PathAndQuery, Refusal> {
    match target {
        None => Ok(PathAndQuery::from_static("/")),
        Some(target) if lacks_path(Some(&target)) => {
            PathAndQuery::try_from(format!("/{}", target.as_str()))
                .map_err(|_| bad_request("the target is not valid"))
        }
        Some(target) => Ok(target),
    }
}

fn without_user_info(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

/// Whether a host field can be nothing but a host and a port, whoever reads it. Empty is allowed. RFC 9110 §7.2
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b':'
                    | b'['
                    | b']'
                    | b'%'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b';'
                    | b'='
            )
    })
}
