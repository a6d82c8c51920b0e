//! `Client-Cert`: the client's verified certificate, for replicas to read. RFC 9440
//!
//! A client that could send these fields itself could impersonate any other. If certificates are
//! forwarded at all, the fields are therefore removed from every request at every listener first.

use super::fields::{reads_as, remove};
use http::header::{HeaderMap, HeaderName, HeaderValue};

const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
const CLIENT_CERT_CHAIN: &str = "client-cert-chain";

/// Whether a field describes a client certificate, or a replica may read it as one.
pub(crate) fn is_one(name: &HeaderName) -> bool {
    reads_as(name.as_str(), CLIENT_CERT.as_str()) || reads_as(name.as_str(), CLIENT_CERT_CHAIN)
}

/// Sets the fields to the verified certificate, and removes all others of that kind.
pub(crate) fn state(headers: &mut HeaderMap, verified: Option<&HeaderValue>) {
    remove(headers, is_one);
    if let Some(certificate) = verified {
        headers.insert(CLIENT_CERT, certificate.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_verified_client_certificate_is_forwarded() {
        let verified = HeaderValue::from_static(":AAAA:");
        for expected in [None, Some(&verified)] {
            let mut headers = HeaderMap::new();
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
            let left: Vec<_> = headers.get_all(CLIENT_CERT).iter().collect();
            assert_eq!(left, Vec::from_iter(expected));
            assert_eq!(headers.len(), left.len() + 1, "{headers:?}");
        }
    }
}
