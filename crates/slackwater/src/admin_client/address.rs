//! An admin server's address as people write it: a host, a port, both, or the URL of its page.

use http::Uri;

/// The default port of `serve`'s admin server.
const PORT: u16 = 9900;
const HOST: &str = "127.0.0.1";

/// An admin server's address. Its host name is not resolved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// A host name or an IP address; an IPv6 address has no brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// The address as it stands in a URL and in a `host` header.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

/// Parses an address: `HOST`, `HOST:PORT`, `:PORT`, `[V6]:PORT`, each also as `http://…/`.
///
/// # Errors
///
/// What is wrong with the text, for the command line's own message.
pub(crate) fn parse(text: &str) -> Result<Address, String> {
    if text.starts_with("https://") {
        return Err("admin servers speak plain HTTP; leave out https://".to_owned());
    }
    let bare = text.strip_prefix("http://").unwrap_or(text);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    // An IPv6 address without brackets has no port.
    if bare.parse::<core::net::Ipv6Addr>().is_ok() {
        return Ok(Address {
            host: bare.to_owned(),
            port: PORT,
        });
    }
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port = port.parse().ok().filter(|port| *port > 0);
            let port = port.ok_or("the port must be a number from 1 to 65535")?;
            (host, port)
        }
        _ => (bare, PORT),
    };
    let host = if host.is_empty() && bare.starts_with(':') {
        HOST
    } else {
        host
    };
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = inside.unwrap_or(host).to_owned();
    let address = Address { host, port };
    // An address must fit into a `host` header.
    let is_sound = |authority: &str| {
        let uri = authority.parse::<Uri>().ok()?;
        Some(uri.port_u16() == Some(port) && !authority.contains('@') && uri.host().is_some())
    };
    if address.host.is_empty() || is_sound(&address.authority()) != Some(true) {
        return Err("expected HOST, HOST:PORT or :PORT of an admin server".to_owned());
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_common_forms() {
        let authority = |text| parse(text).map(|address| address.authority());
        for (text, expected) in [
            ("127.0.0.1:9901", "127.0.0.1:9901"),
            ("lb-3.example.com", "lb-3.example.com:9900"),
            (":9902", "127.0.0.1:9902"),
            ("http://10.0.0.7:80/", "10.0.0.7:80"),
            ("http://10.0.0.7", "10.0.0.7:9900"),
            ("[::1]:9901", "[::1]:9901"),
            ("[::1]", "[::1]:9900"),
            ("::1", "[::1]:9900"),
        ] {
            assert_eq!(authority(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(parse("[::1]:9901").unwrap().host, "::1");
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in [
            "", ":", "a:0", "a:65536", "a:b", "http://", "a b", "u@h:1", "a/b", "[x y]:1", "a/b:1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("https://a:1").unwrap_err().contains("plain HTTP"));
    }
}
