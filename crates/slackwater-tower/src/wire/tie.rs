//! The header that marks one of two tied copies of a request and names the other's replica. `[H2]`
//!
//! Example: `x-slackwater-tie: 00c0ffee00c0ffee; twin=10.0.0.7:8000`. It contains the name of both
//! copies, 16 hexadecimal digits, and the IP address and port at which the other copy's replica
//! receives datagrams. A replica that starts its copy notifies that one by a datagram
//! ([`encode_begun`](super::datagram::encode_begun)). The proxy that ties two copies draws the name
//! at random, so that it cannot be guessed, and does not pass on a client's own header. A header of
//! any other form is ignored.

use super::hex;
use core::net::SocketAddr;
use http::{HeaderName, HeaderValue};
use slackwater_core::tail::TieName;
use slackwater_http::FieldMap;

/// The header with a copy's name, and the address of the other copy's replica.
pub const TIE: HeaderName = HeaderName::from_static("x-slackwater-tie");

const NAME_DIGITS: usize = 16;
const OTHER_COPY: &str = "; twin=";

/// One of the two copies of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The name of both copies.
    pub name: TieName,
    /// The address at which the other copy's replica receives datagrams.
    pub other_copy: SocketAddr,
}

impl Tie {
    /// Reads these headers; `None` if there is not exactly one such header, or if its form is
    /// wrong.
    pub fn read(headers: &impl FieldMap) -> Option<Self> {
        let name = TIE;
        let mut said = headers.all(&name);
        let (only, None) = (said.next()?, said.next()) else {
            return None;
        };
        let (name, other_copy) = only.to_str().ok()?.split_at_checked(NAME_DIGITS)?;
        let mut bytes = [0; NAME_DIGITS / 2];
        hex::decode(name.as_bytes(), &mut bytes)?;
        let other_copy: SocketAddr = other_copy.strip_prefix(OTHER_COPY)?.parse().ok()?;
        Some(Self {
            name: TieName(u64::from_be_bytes(bytes)),
            other_copy,
        })
    }

    /// Puts the tie into a request's headers, replacing any that is there.
    pub fn write(&self, headers: &mut impl FieldMap) {
        let Self { name, other_copy } = self;
        let value = HeaderValue::try_from(format!("{:016x}{OTHER_COPY}{other_copy}", name.0));
        // Hexadecimal digits and an address always make a header value.
        if let Ok(value) = value {
            headers.set(&TIE, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn read(values: &[&'static str]) -> Option<Tie> {
        let fields = values.iter().map(|it| (TIE, HeaderValue::from_static(it)));
        // `from_iter` would keep the last.
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        Tie::read(&headers)
    }

    #[test]
    fn tie_round_trips() {
        for other_copy in ["10.0.0.7:8000", "[fd00::7]:1", "[fe80::1%3]:65535"] {
            let tie = Tie {
                name: TieName(0x00c0_ffee),
                other_copy: other_copy.parse().expect("an address"),
            };
            let mut headers = HeaderMap::new();
            headers.insert(TIE, HeaderValue::from_static("before"));
            tie.write(&mut headers);
            assert_eq!(Tie::read(&headers), Some(tie));
            let text = format!("0000000000c0ffee; twin={other_copy}");
            assert_eq!(headers[TIE], text);
        }
    }

    #[test]
    fn an_invalid_tie_is_ignored() {
        let good = "00c0ffee00C0FFEE; twin=10.0.0.7:8000";
        assert!(read(&[good]).is_some());
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[good, good]), None, "which of them?");
        for text in [
            "",
            "00c0ffee00c0ffee",
            "00c0ffee00c0ffee; twin=",
            "00c0ffee00c0ffee; twin=10.0.0.7",
            "00c0ffee00c0ffee; twin=localhost:80",
            "00c0ffee00c0ffee; twin=10.0.0.7:8000 ",
            "00c0ffee00c0ffee; twin=10.0.0.7:8000; more",
            "00c0ffee00c0ffee;twin=10.0.0.7:8000",
            "00c0ffee00c0ffe; twin=10.0.0.7:8000",
            "00c0ffee00c0ffee0; twin=10.0.0.7:8000",
            "00c0ffee00c0ffeg; twin=10.0.0.7:8000",
            "+0c0ffee00c0ffee; twin=10.0.0.7:8000",
        ] {
            assert_eq!(read(&[text]), None, "{text}");
        }
    }
}
