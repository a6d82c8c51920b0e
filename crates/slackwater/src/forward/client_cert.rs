//! `Client-Cert`: what a client has proved to be, for replicas to read. RFC 9440
//!
//! Whoever could send these fields itself could pass for anybody, so where certificates are passed on at all they are
//! taken out of every request first, at every listener.

use http::header::{HeaderMap, HeaderName, HeaderValue};

const CLIENT_CERT: HeaderName = HeaderName::from_static("client-cert");
const CLIENT_CERT_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");

/// Leaves in a request's head what was verified, and nothing else of that kind.
pub(super) fn state(headers: &mut HeaderMap, verified: Option<&HeaderValue>) {
    headers.remove(CLIENT_CERT_CHAIN);
    match verified {
        Some(certificate) => {
            headers.insert(CLIENT_CERT, certificate.clone());
        }
        None => {
            headers.remove(CLIENT_CERT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_but_what_was_verified() {
        let verified = HeaderValue::from_static(":AAAA:");
        for expected in [None, Some(&verified)] {
            let mut headers = HeaderMap::new();
            for name in [CLIENT_CERT, CLIENT_CERT, CLIENT_CERT_CHAIN] {
                headers.append(name, HeaderValue::from_static(":forged:"));
            }
            state(&mut headers, expected);
            let left: Vec<_> = headers.get_all(CLIENT_CERT).iter().collect();
            assert_eq!(left, Vec::from_iter(expected));
            assert!(!headers.contains_key(CLIENT_CERT_CHAIN));
        }
    }
}
