//! Writes a header, for replicas that learn the client's address from it.

use super::parse::SIGNATURE_2;
use core::net::{IpAddr, SocketAddr};

/// The form of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    One,
    /// Binary.
    Two,
}

/// Source and destination of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client's address and port.
    pub from: SocketAddr,
    /// The address and port that it connected to.
    pub to: SocketAddr,
}

/// Writes the header for a client's connection. Without `ends`, it is for a connection of the proxy
/// itself.
pub fn header(version: Version, ends: Option<&Ends>) -> Vec<u8> {
    let told = ends.map(Ends::alike);
    match version {
        Version::One => line(told).into_bytes(),
        Version::Two => bytes(told),
    }
}

impl Ends {
    /// Returns both addresses in one family, as each form requires. A mapped IPv4 address is sent
    /// as IPv4, unless the other one is IPv6.
    fn alike(&self) -> [SocketAddr; 2] {
        let ends = [self.from, self.to].map(|end| (end.ip().to_canonical(), end.port()));
        if ends.iter().all(|(ip, _)| ip.is_ipv4()) {
            return ends.map(SocketAddr::from);
        }
        ends.map(|(ip, port)| match ip {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped(), port).into(),
            IpAddr::V6(ip) => (ip, port).into(),
        })
    }
}

fn line(told: Option<[SocketAddr; 2]>) -> String {
    let Some([from, to]) = told else {
        return "PROXY UNKNOWN\r\n".to_owned();
    };
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from_port, to_port) = (from.port(), to.port());
    format!(
        "PROXY {family} {} {} {from_port} {to_port}\r\n",
        from.ip(),
        to.ip()
    )
}

fn bytes(told: Option<[SocketAddr; 2]>) -> Vec<u8> {
    const LOCAL: u8 = 0x20;
    const PROXY: u8 = 0x21;
    const STREAM: u8 = 1;
    let mut header = SIGNATURE_2.to_vec();
    let Some(ends) = told else {
        header.extend([LOCAL, 0, 0, 0]);
        return header;
    };
    let (family, length) = if ends[0].is_ipv4() { (1, 12) } else { (2, 36) };
    header.extend([PROXY, family << 4 | STREAM, 0, length]);
    for end in ends {
        match end.ip() {
            IpAddr::V4(ip) => header.extend(ip.octets()),
            IpAddr::V6(ip) => header.extend(ip.octets()),
        }
    }
    for end in ends {
        header.extend(end.port().to_be_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Header, Parsed, parse};
    use super::*;

    fn ends(from: &str, to: &str) -> Ends {
        let address = |text: &str| text.parse().expect("an address");
        Ends {
            from: address(from),
            to: address(to),
        }
    }

    #[test]
    fn written_header_is_parsed_as_intended() {
        for (given, expected) in [
            (
                ends("192.0.2.7:50000", "198.51.100.1:443"),
                ends("192.0.2.7:50000", "198.51.100.1:443"),
            ),
            (
                ends("[2001:db8::7]:1", "[2001:db8::1]:65535"),
                ends("[2001:db8::7]:1", "[2001:db8::1]:65535"),
            ),
            (
                ends("[::ffff:192.0.2.7]:50000", "198.51.100.1:443"),
                ends("192.0.2.7:50000", "198.51.100.1:443"),
            ),
            (
                ends("192.0.2.7:50000", "[2001:db8::1]:443"),
                ends("[::ffff:192.0.2.7]:50000", "[2001:db8::1]:443"),
            ),
        ] {
            for version in [Version::One, Version::Two] {
                let header = header(version, Some(&given));
                let told = Header {
                    addresses: Some((expected.from, expected.to)),
                };
                assert_eq!(parse(&header), Ok(Parsed::Header(told, header.len())));
            }
        }
        for version in [Version::One, Version::Two] {
            let header = header(version, None);
            let told = Header { addresses: None };
            assert_eq!(parse(&header), Ok(Parsed::Header(told, header.len())));
        }
    }

    #[test]
    fn headers_match_the_specification() {
        let ends = ends("192.0.2.7:50000", "198.51.100.1:443");
        assert_eq!(
            header(Version::One, Some(&ends)),
            b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n"
        );
        assert_eq!(
            header(Version::Two, Some(&ends)),
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc6\x33\x64\x01\xc3\x50\x01\xbb"
        );
    }
}
