//! Addresses as users write them: `10.0.0.1:80`, `[::1]:80`, `app.example:80`.
//!
//! Literals are parsed only here. Anything else is a host name, which the system resolves once,
//! when the configuration is loaded. If a name has both IPv4 and IPv6 addresses, only the IPv4 ones
//! are used, so that `localhost` means the same everywhere.

use core::fmt::{self, Write as _};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use rustls::pki_types::ServerName;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a replica listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket, by its path.
    Unix(PathBuf),
}

impl fmt::Display for ReplicaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A host and a port, the host not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A literal IP address.
    Ip(SocketAddr),
    /// A host name, in lower case.
    Name(String, u16),
}

impl Address {
    /// The name that a certificate for this host must have; `None` if no certificate can have it.
    pub(super) fn server_name(&self) -> Option<ServerName<'static>> {
        match self {
            Self::Ip(address) => Some(ServerName::from(address.ip())),
            Self::Name(host, _) => ServerName::try_from(host.clone()).ok(),
        }
    }

    /// Reads `host:port`.
    ///
    /// # Errors
    ///
    /// Returns what was expected instead.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(literal) = text.parse::<SocketAddr>() {
            return Ok(Self::Ip(literal));
        }
        if text.contains(',') {
            return Err("expected one address; several are a list: [\"…\", \"…\"]".to_owned());
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return Err(in_place_of_url(scheme, rest));
        }
        if text.parse::<u16>().is_ok() {
            return Err(format!(
                "expected a host before the port, as in \"127.0.0.1:{text}\""
            ));
        }
        if text.parse::<Ipv6Addr>().is_ok()
            || text.matches(':').count() > 1 && !text.starts_with('[')
        {
            return Err("expected an IPv6 address in brackets, such as \"[::1]:8080\"".to_owned());
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err("expected a port, as in \"10.0.0.1:8080\"".to_owned());
        };
        let port = parse_port(port)?;
        if host.starts_with('[') || host.is_empty() {
            return Err(
                "expected an address such as \"10.0.0.1:8080\" or \"[::1]:8080\"".to_owned(),
            );
        }
        if host
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            return Err("expected an IPv4 address of four numbers from 0 to 255".to_owned());
        }
        if !is_host_name(host) {
            return Err("expected a host name of letters, digits, hyphens and dots".to_owned());
        }
        Ok(Self::Name(host.to_ascii_lowercase(), port))
    }

    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Ip(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }

    /// The literal's address, or all addresses of the name's preferred family; at least one.
    ///
    /// # Errors
    ///
    /// Returns why the name does not resolve.
    pub(super) fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let (host, port) = match self {
            Self::Ip(address) => return Ok(vec![*address]),
            Self::Name(host, port) => (host.as_str(), *port),
        };
        let all: Vec<_> = (host, port)
            .to_socket_addrs()
            .map_err(|error| format!("cannot be resolved: {error}"))?
            .collect();
        let found = prefer_ipv4(all);
        if found.is_empty() {
            return Err("cannot be resolved: the name has no addresses".to_owned());
        }
        Ok(found)
    }
}

/// Returns the IPv4 addresses if there are any, otherwise all; each once, in the system's order.
fn prefer_ipv4(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if addresses.iter().any(SocketAddr::is_ipv4) {
        addresses.retain(SocketAddr::is_ipv4);
    }
    let mut once: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !once.contains(&address) {
            once.push(address);
        }
    }
    once
}

/// The error for a URL where an address is expected.
fn in_place_of_url(scheme: &str, rest: &str) -> String {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (port, tls) = match scheme {
        "https" => (443, ", and [replica.tls] for TLS"),
        _ => (80, ""),
    };
    let mut address = authority.to_owned();
    if !has_port(authority) {
        let _ = write!(address, ":{port}");
    }
    format!("expected host:port, not a URL: {address:?}{tls}")
}

fn has_port(authority: &str) -> bool {
    let behind_host = authority.rsplit(']').next().unwrap_or(authority);
    behind_host.contains(':')
}

fn parse_port(text: &str) -> Result<u16, String> {
    // `u16::from_str` would accept "+80".
    (Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| "expected a port from 0 to 65535 after the last colon".to_owned())
}

pub(super) fn is_host_name(host: &str) -> bool {
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && (label.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    host.len() <= 253 && (host.strip_suffix('.').unwrap_or(host).split('.')).all(label_fits)
}

/// Normalizes an address: an IPv4-mapped IPv6 address becomes IPv4.
pub(super) fn normal(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a listener at one address receives connections to the other.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (one, other) = (normal(one), normal(other));
    one.port() == other.port()
        && one.port() != 0
        && (one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified())
}

/// Whether a request to `replica` would come back to a listener at `listen`, as far as that is
/// clear without asking the system for its addresses.
pub(super) fn loops_back(listen: SocketAddr, replica: SocketAddr) -> bool {
    let (listen, replica) = (normal(listen), normal(replica));
    listen.port() == replica.port()
        && (listen.ip() == replica.ip()
            || listen.ip().is_unspecified() && replica.ip().is_loopback())
}

/// The addresses where this process itself listens, which cannot be replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddresses(Arc<[SocketAddr]>);

impl OwnAddresses {
    /// The process's own addresses.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self(addresses.into_iter().collect())
    }

    /// Returns an error if the replica's address is one of this process's own.
    pub fn why_not(&self, replica: SocketAddr) -> Option<String> {
        let mut own = self.0.iter();
        let own = own.find(|own| loops_back(**own, replica))?;
        Some(format!(
            "is this process itself, which listens at {own}; requests would go round in circles"
        ))
    }
}

/// Why requests cannot be sent to an address; `None` if they can.
pub fn unreachable(address: SocketAddr) -> Option<&'static str> {
    let ip = address.ip().to_canonical();
    if address.port() == 0 {
        Some("port 0 cannot be connected to, expected a port from 1 to 65535")
    } else if ip.is_unspecified() {
        Some("is every address of this machine, expected one address of the replica")
    } else if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        Some("is an address of many machines, expected one address of the replica")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> SocketAddr {
        text.parse().expect("a literal")
    }

    #[test]
    fn literals_and_names_are_distinguished() {
        for text in [
            "10.0.0.1:80",
            "[::1]:80",
            "[2001:db8::1]:65535",
            "0.0.0.0:0",
        ] {
            assert_eq!(Address::parse(text), Ok(Address::Ip(literal(text))));
        }
        for (text, host) in [
            ("App.Example:80", "app.example"),
            ("a_b-c:80", "a_b-c"),
            ("x.:80", "x."),
        ] {
            assert_eq!(Address::parse(text), Ok(Address::Name(host.to_owned(), 80)));
        }
    }

    #[test]
    fn invalid_addresses_are_rejected_with_the_expected_form() {
        for (text, expected) in [
            ("", "expected a port"),
            ("10.0.0.1:80,10.0.0.2:80", "several are a list"),
            ("10.0.0.1", "expected a port"),
            ("http://10.0.0.1:80", "not a URL"),
            ("::1", "in brackets"),
            ("::1:80", "in brackets"),
            ("[::1", "in brackets"),
            ("[::1]", "expected"),
            ("[::g]:80", "expected an address"),
            (":80", "expected an address"),
            ("10.0.0.1:", "a port from 0 to 65535"),
            ("10.0.0.1:+80", "a port from 0 to 65535"),
            ("10.0.0.1:65536", "a port from 0 to 65535"),
            ("10.0.0.256:80", "four numbers"),
            ("127.1:80", "four numbers"),
            ("a b:80", "letters, digits"),
            ("-a:80", "letters, digits"),
            ("a..b:80", "letters, digits"),
            ("ñ:80", "letters, digits"),
        ] {
            match Address::parse(text) {
                Err(message) => assert!(
                    message.contains(expected) || text == "[::1",
                    "{text}: {message}"
                ),
                Ok(address) => panic!("{text} is no address, but became {address:?}"),
            }
        }
    }

    #[test]
    fn ipv4_addresses_of_a_name_are_preferred() {
        let (four, six) = (literal("127.0.0.1:80"), literal("[::1]:80"));
        assert_eq!(prefer_ipv4(vec![six, four, four]), [four]);
        assert_eq!(prefer_ipv4(vec![six]), [six]);
    }

    #[test]
    fn listeners_overlap_where_one_port_would_be_opened_twice() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "[::]:80", true),
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            assert_eq!(
                overlap(literal(one), literal(other)),
                expected,
                "{one} {other}"
            );
        }
    }
}
