//! Who may change something by way of the admin server: a program on this side of it, or a page that came from it. Not a page
//! from elsewhere that has a browser ask in its name, nor one whose name was made to point here.

use super::reply::{Reply, refusal};
use core::net::IpAddr;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, StatusCode};

/// Whether a request with these headers may change something.
///
/// # Errors
///
/// The answer that says why not.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub(crate) fn may_change(headers: &HeaderMap) -> Result<(), Reply> {
    let forbidden = |why: String| Err(refusal(StatusCode::FORBIDDEN, why));
    let Some(host) = only(headers, &HOST) else {
        return forbidden("header host: has to be there, once".to_owned());
    };
    if !is_address_or_localhost(host) {
        return forbidden(format!(
            "header host: found {host:?}, expected an address or localhost: anybody can have a name point here"
        ));
    }
    if headers.contains_key(ORIGIN) {
        let own = format!("http://{host}");
        let is_own = only(headers, &ORIGIN).is_some_and(|origin| origin.eq_ignore_ascii_case(&own));
        if !is_own {
            return forbidden(format!("header origin: expected {own:?}, or none"));
        }
    }
    if !only(headers, &CONTENT_TYPE).is_some_and(|value| is_json(value.as_bytes())) {
        let why = "header content-type: expected application/json";
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(())
}

/// Whether this content type says JSON, with whatever parameters.
pub(super) fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next();
    essence.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"application/json"))
}

/// The value of a header that is there just once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is_address_or_localhost(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some(parts) => parts,
            None => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = rest
        .strip_prefix(':')
        .is_none_or(|port| port.parse::<u16>().is_ok());
    let is_v6 = host.starts_with('[');
    let is_meant = name
        .parse::<IpAddr>()
        .map_or(name.eq_ignore_ascii_case("localhost") && !is_v6, |ip| {
            ip.is_ipv6() == is_v6
        });
    is_meant && is_port && (rest.is_empty() || rest.starts_with(':'))
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
    fn the_host_is_an_address_or_localhost() {
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
    fn the_origin_is_the_server_itself() {
        let host = ("host", "127.0.0.1:9900");
        for (origin, refused) in [
            ("http://127.0.0.1:9900", None),
            ("HTTP://127.0.0.1:9900", None),
            ("http://127.0.0.1:9901", Some(403)),
            ("https://127.0.0.1:9900", Some(403)),
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
    fn the_body_is_json() {
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
