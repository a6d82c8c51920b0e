//! `Client-Cert`: the client's verified certificate, for replicas to read. RFC 9440
//!
//! A client that could send these fields itself could impersonate any other. If certificates are
//! forwarded at all, the fields are therefore removed from every request at every listener first.

use super::fields::reads_as;
use http::header::{HeaderName, HeaderValue};
use slackwater_http::Fields;

const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
const CLIENT_CERT_CHAIN: &str = "client-cert-chain";

/// Whether a field describes a client certificate, or a replica may read it as one.
pub(crate) fn is_one(name: &[u8]) -> bool {
    reads_as(name, CLIENT_CERT.as_str()) || reads_as(name, CLIENT_CERT_CHAIN)
}

/// Sets the fields to the verified certificate, and removes all others of that kind.
pub(crate) fn state(headers: &mut Fields, verified: Option<&HeaderValue>) {
    headers.retain(|name, _| !is_one(name));
    if let Some(certificate) = verified {
        headers.insert(CLIENT_CERT, certificate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_verified_client_certificate_is_forwarded() {
        let verified = HeaderValue::from_static(":AAAA:");
        for expected in [None, Some(&verified)] {
            let mut headers = Fields::new();
            for name in [
                "client-cert",
                "client-cert",
                "client-cert-chain",
                "client_cert",
                "client_cert-chain",
            ] {
                headers.append(name, HeaderValue::from_static(":forged:"));
            }
            headers.append("client-certs", HeaderValue::from_static("other"));
            state(&mut headers, expected);
            let left: Vec<_> = headers.get_all(CLIENT_CERT).collect();
            assert_eq!(left, Vec::from_iter(expected));
            assert_eq!(headers.len(), left.len() + 1, "{headers:?}");
        }
    }
}
