//! Which certificate a client is shown, by the name that it asks for (SNI, RFC 6066 §3).
//!
//! A certificate's names are those in it (subjectAltName). An exact name goes before a wildcard,
//! which stands for exactly one label: `*.a.test` is for `x.a.test`, and neither for `a.test` nor
//! for `y.x.a.test` (RFC 6125 §6.4.3). Whoever asks for no name, or for an unknown one, is shown
//! the first. Of several for one name (RSA and ECDSA) it is the first whose key the client can
//! check.

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
    /// Positions in `all`, in their order; wildcards without their star: `.a.test`.
    by_name: HashMap<String, Vec<usize>>,
}

impl Identities {
    /// In the order in which they are preferred.
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

    /// All of them.
    pub fn all(&self) -> &[Identity] {
        &self.all
    }

    /// Positions of those that are for `name`, best first.
    fn candidates(&self, name: &str) -> &[usize] {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(exact) = self.by_name.get(&name) {
            return exact;
        }
        let Some((_, parent)) = name.split_once('.') else {
            return &[];
        };
        let wildcard = self.by_name.get(&format!(".{parent}"));
        wildcard.map_or(&[], Vec::as_slice)
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Identity> {
        let fits = |identity: &&Identity| identity.certified.key.choose_scheme(schemes).is_some();
        let named = (name.map_or(&[][..], |name| self.candidates(name)).iter())
            .filter_map(|position| self.all.get(*position));
        // With the wrong name rather than with a key that the client cannot check; and where
        // nothing fits, the handshake's own error says more than none at all.
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
    fn names_are_found_exactly_then_by_wildcard_then_the_first() {
        let identities = identities(&[&["first.test"], &["*.a.test"], &["b.a.test", "c.test"]]);
        for (asked, expected) in [
            (Some("first.test"), "first.test"),
            (Some("b.a.test"), "b.a.test"),
            (Some("B.A.Test"), "b.a.test"),
            (Some("b.a.test."), "b.a.test"),
            (Some("c.test"), "b.a.test"),
            (Some("x.a.test"), "*.a.test"),
            (Some("X.A.TEST"), "*.a.test"),
            // One label, not none and not two.
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
    fn of_two_for_one_name_the_first_that_can_be_checked() {
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
}
