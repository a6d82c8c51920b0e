//! Access checks of the admin server by request headers: which clients may read, and which may
//! change something. Allowed are programs, and pages that this server delivered. Pages of other
//! sites are rejected, and pages whose host name was made to point here (DNS rebinding).

use super::reply::{Reply, refusal};
use core::net::{Ipv4Addr, Ipv6Addr};
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, StatusCode};
use rustix::system::uname;

/// Checks that a request over loopback was meant for this machine. A page of another site can let
/// its own name point to 127.0.0.1, and the browser would then treat it as a page from here. The
/// `host` header reveals that name. Names without a dot are accepted: the internet's DNS has none,
/// only a local network's DNS has, where machines use such names (`lb:9900`). Programs may leave
/// the header out.
///
/// # Errors
///
/// Returns the response with the reason.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub(super) fn is_for_this_machine(headers: &HeaderMap) -> Result<(), Reply> {
    if !headers.contains_key(HOST) {
        return Ok(());
    }
    let is_meant = |host: &str| {
        is_address_or_localhost(host)
            || name_in(host).is_some_and(|name| {
                !name.contains('.')
                    || uname()
                        .nodename()
                        .to_bytes()
                        .eq_ignore_ascii_case(name.as_bytes())
            })
    };
    if only(headers, &HOST).is_some_and(is_meant) {
        return Ok(());
    }
    Err(refusal(
        StatusCode::FORBIDDEN,
        "header host: expected an address, localhost, or the name of this machine: any other name may point here without permission; \
         a proxy before this server must send one of these",
    ))
}

/// Checks a request that changes something, for servers on which any client that reaches the
/// address may do so.
///
/// # Errors
///
/// Returns the response with the reason.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub fn may_change(headers: &HeaderMap) -> Result<(), Reply> {
    let forbidden = |why: String| Err(refusal(StatusCode::FORBIDDEN, why));
    let Some(host) = only(headers, &HOST) else {
        return forbidden("header host: has to be there, once".to_owned());
    };
    if !is_address_or_localhost(host) {
        return forbidden(format!(
            "header host: found {host:?}, expected an address or localhost: any name may point here without permission"
        ));
    }
    is_from_here(headers)?;
    says_json(headers)
}

/// Checks that a request does not come from a page of another site. Browsers send the page's origin
/// in `origin`, whose host must equal the requested one. Any scheme is accepted, because a proxy
/// before this server may terminate TLS.
///
/// # Errors
///
/// Returns the response with the reason.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub(super) fn is_from_here(headers: &HeaderMap) -> Result<(), Reply> {
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = only(headers, &ORIGIN).and_then(|origin| origin.split_once("://"));
    let is_from_here = origin.is_some_and(|(scheme, origin)| {
        let is_web = ["http", "https"]
            .iter()
            .any(|it| scheme.eq_ignore_ascii_case(it));
        is_web && only(headers, &HOST).is_some_and(|host| host.eq_ignore_ascii_case(origin))
    });
    if is_from_here {
        return Ok(());
    }
    Err(refusal(
        StatusCode::FORBIDDEN,
        "header origin: is not the requested host; a page of another site may change nothing here",
    ))
}

/// Checks that the content type of the body is JSON, with any parameters.
///
/// # Errors
///
/// Returns the response with the reason.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub(super) fn says_json(headers: &HeaderMap) -> Result<(), Reply> {
    let essence = only(headers, &CONTENT_TYPE).and_then(|value| value.split(';').next());
    if essence.is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(refusal(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "expected a JSON object, and the header content-type: application/json",
    ))
}

/// The value of a header that occurs exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is_address_or_localhost(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.split_once(']').is_some_and(|(address, rest)| {
            address.parse::<Ipv6Addr>().is_ok() && (rest.is_empty() || is_port_of(rest))
        });
    }
    name_in(host).is_some_and(|name| {
        name.parse::<Ipv4Addr>().is_ok() || name.eq_ignore_ascii_case("localhost")
    })
}

/// Returns the name or the IPv4 address of a host, with or without a port; `None` if it is neither.
fn name_in(host: &str) -> Option<&str> {
    let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_one = !name.is_empty() && name.bytes().all(is_name);
    (is_one && (rest.is_empty() || is_port_of(rest))).then_some(name)
}

/// Whether this is a colon followed by a port.
fn is_port_of(rest: &str) -> bool {
    let port = rest.strip_prefix(':').unwrap_or_default();
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn status(headers: &[(&str, &str)]) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a name");
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        may_change(&map).err().map(|reply| reply.status().as_u16())
    }

    const JSON: (&str, &str) = ("content-type", "application/json");

    #[test]
    fn host_must_be_an_address_or_localhost() {
        for good in [
            "127.0.0.1:9900",
            "127.0.0.1",
            "[::1]:9900",
            "[::1]",
            "localhost",
            "LocalHost:80",
            "10.1.2.3:9900",
        ] {
            assert_eq!(status(&[("host", good), JSON]), None, "{good}");
        }
        for bad in [
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com:9900",
            "::1",
            "[127.0.0.1]",
            "[localhost]:1",
            "[::1",
            "[::1]x",
            "localhost:x",
            "localhost:+80",
            "a@localhost",
            "",
        ] {
            assert_eq!(status(&[("host", bad), JSON]), Some(403), "{bad}");
        }
        assert_eq!(status(&[JSON]), Some(403));
        assert_eq!(
            status(&[("host", "localhost"), ("host", "localhost"), JSON]),
            Some(403)
        );
    }

    #[test]
    fn origin_must_be_the_server_itself() {
        let host = ("host", "127.0.0.1:9900");
        for (origin, refused) in [
            ("http://127.0.0.1:9900", None),
            ("HTTP://127.0.0.1:9900", None),
            ("https://127.0.0.1:9900", None),
            ("http://127.0.0.1:9901", Some(403)),
            ("http://127.0.0.1", Some(403)),
            ("ftp://127.0.0.1:9900", Some(403)),
            ("127.0.0.1:9900", Some(403)),
            ("http://example.com", Some(403)),
            ("null", Some(403)),
        ] {
            assert_eq!(
                status(&[host, ("origin", origin), JSON]),
                refused,
                "{origin}"
            );
        }
    }

    #[test]
    fn cross_site_request_is_recognised_by_its_origin() {
        let from_here = |headers: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_str(value).expect("a value"));
            }
            is_from_here(&map).is_ok()
        };
        let (host, origin) = (("host", "lb.example"), ("origin", "https://LB.example"));
        assert!(from_here(&[]) && from_here(&[host]) && from_here(&[host, origin]));
        assert!(
            !from_here(&[origin]),
            "without a host there is nothing to compare"
        );
        assert!(!from_here(&[host, host, origin]));
        assert!(!from_here(&[host, origin, origin]), "two are ambiguous");
        assert!(!from_here(&[host, ("origin", "https://other.example")]));
    }

    #[test]
    fn rebound_dns_name_is_recognised() {
        let is_meant = |hosts: &[&str]| {
            let mut map = HeaderMap::new();
            for host in hosts {
                map.append("host", HeaderValue::from_str(host).expect("a value"));
            }
            is_for_this_machine(&map).is_ok()
        };
        let own = uname().nodename().to_string_lossy().into_owned();
        for good in [
            "127.0.0.1:9900",
            "[::1]:1",
            "localhost:9900",
            "lb:9900",
            "prometheus",
            &own,
        ] {
            assert!(is_meant(&[good]), "{good}");
        }
        assert!(is_meant(&[]));
        for bad in [
            "evil.example",
            "evil.example:9900",
            "127.0.0.1.evil.example",
            "[lb.x]:1",
            "localhost:evil",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "lb:evil",
            "lb:",
            "a@localhost",
            "a@lb",
            "localhost@evil",
            "l b",
            "lb/",
            "[lb]",
            "[::1",
            "::1",
            "",
        ] {
            assert!(!is_meant(&[bad]), "{bad}");
        }
        assert!(!is_meant(&["localhost", "localhost"]));
    }

    #[test]
    fn body_must_be_json() {
        let host = ("host", "localhost");
        for (kind, refused) in [
            ("application/json", None),
            ("Application/JSON; charset=utf-8", None),
            ("text/plain", Some(415)),
            ("application/x-www-form-urlencoded", Some(415)),
            ("application/jsonx", Some(415)),
        ] {
            assert_eq!(status(&[host, ("content-type", kind)]), refused, "{kind}");
        }
        assert_eq!(status(&[host]), Some(415));
    }
}
