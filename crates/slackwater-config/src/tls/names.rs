//! Selects a certificate by the name that the client requests (SNI, RFC 6066 §3).
//!
//! A certificate's names are in it (subjectAltName). An exact name takes precedence over a
//! wildcard, which stands for exactly one label: `*.a.test` matches `x.a.test`, and neither
//! `a.test` nor `y.x.a.test` (RFC 6125 §6.4.3). A client that requests no name or an unknown one
//! gets the first certificate. If several match (RSA and ECDSA), the client gets the first whose
//! key it can verify, by a wildcard if need be.

use super::identity::Identity;
use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The identities of a listener; at least one.
#[derive(Debug)]
pub struct Identities {
    all: Vec<Identity>,
    /// Indices in `all`, in its order; wildcards without their star: `.a.test`.
    by_name: HashMap<String, Vec<usize>>,
}

impl Identities {
    /// The identities in order of preference.
    pub fn new(all: Vec<Identity>) -> Self {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, identity) in all.iter().enumerate() {
            for name in &identity.names {
                let key = name.strip_prefix('*').unwrap_or(name);
                let positions = by_name.entry(key.to_owned()).or_default();
                if !positions.contains(&position) {
                    positions.push(position);
                }
            }
        }
        Self { all, by_name }
    }

    /// All identities.
    pub fn all(&self) -> &[Identity] {
        &self.all
    }

    /// The identities for `name`, best first.
    fn candidates(&self, name: &str) -> impl Iterator<Item = &Identity> + Clone {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let exact = self.by_name.get(&name);
        let parent = name.find('.').and_then(|dot| name.get(dot..));
        let wildcard = parent.and_then(|parent| self.by_name.get(parent));
        let positions = exact.into_iter().chain(wildcard).flatten();
        positions.filter_map(|position| self.all.get(*position))
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Identity> {
        let fits = |identity: &&Identity| identity.certified.key.choose_scheme(schemes).is_some();
        let named = name.into_iter().flat_map(|name| self.candidates(name));
        // If no certificate of the name fits, the handshake fails by its key, which is the cause.
        // A certificate with another name would only hide it.
        (named.clone().find(fits))
            .or_else(|| named.clone().next())
            .or_else(|| self.all.iter().find(fits))
            .or_else(|| self.all.first())
    }
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), hello.signature_schemes())
            .map(|identity| Arc::clone(&identity.certified))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Authority;
    use super::*;

    const ECDSA: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256];

    fn identities(names: &[&[&str]]) -> Identities {
        let authority = Authority::new();
        let all = names.iter().map(|names| authority.identity(names));
        Identities::new(all.collect())
    }

    fn chosen(identities: &Identities, name: Option<&str>) -> String {
        let identity = identities.choose(name, ECDSA).expect("there is always one");
        identity.names[0].clone()
    }

    #[test]
    fn certificate_is_found_by_exact_name_wildcard_or_default() {
        let identities = identities(&[&["first.test"], &["*.a.test"], &["b.a.test", "c.test"]]);
        for (asked, expected) in [
            (Some("first.test"), "first.test"),
            (Some("b.a.test"), "b.a.test"),
            (Some("B.A.Test"), "b.a.test"),
            (Some("b.a.test."), "b.a.test"),
            (Some("c.test"), "b.a.test"),
            (Some("x.a.test"), "*.a.test"),
            (Some("X.A.TEST"), "*.a.test"),
            // A wildcard stands for exactly one label.
            (Some("a.test"), "first.test"),
            (Some("y.x.a.test"), "first.test"),
            (Some("unknown"), "first.test"),
            (Some(""), "first.test"),
            (None, "first.test"),
        ] {
            assert_eq!(chosen(&identities, asked), expected, "{asked:?}");
        }
    }

    #[test]
    fn first_verifiable_certificate_of_a_name_is_chosen() {
        let authority = Authority::new();
        let identities = Identities::new(vec![
            authority.identity_with(&["a.test", "ed"], &rcgen::PKCS_ED25519),
            authority.identity(&["a.test", "ec"]),
        ]);
        let second = |schemes: &[SignatureScheme]| {
            let identity = identities.choose(Some("a.test"), schemes).expect("one");
            identity.names[1].clone()
        };
        assert_eq!(second(&[SignatureScheme::ED25519]), "ed");
        assert_eq!(second(ECDSA), "ec");
        assert_eq!(second(&[ECDSA[0], SignatureScheme::ED25519]), "ed");
        assert_eq!(second(&[]), "ed", "the handshake fails and says why");
    }

    #[test]
    fn wildcard_stands_in_for_an_exact_name_whose_key_does_not_fit() {
        let authority = Authority::new();
        let identities = Identities::new(vec![
            authority.identity_with(&["b.a.test"], &rcgen::PKCS_ED25519),
            authority.identity(&["*.a.test"]),
        ]);
        assert_eq!(chosen(&identities, Some("b.a.test")), "*.a.test");
        let both = [ECDSA[0], SignatureScheme::ED25519];
        let identity = identities.choose(Some("b.a.test"), &both).expect("one");
        assert_eq!(identity.names[0], "b.a.test");
    }
}
