//! The section `[forwarded]`: the proxies that are trusted to name a request's origin, and the
//! headers that name it to replicas.

use super::network::Network;
use crate::table::{Choice, Many, Written, settings};
use crate::toml_reader::values::Unfit;

/// Networks of trusted proxies.
pub(super) const NETWORKS: Many<Written<Network>> = Many {
    of: Written {
        what: Network::EXPECTED,
        expected: Network::EXPECTED,
        parse: |written| {
            written.parse().map_err(|why| {
                Unfit::Other(format!(
                    "found {written:?}: {why}; expected {}",
                    Network::EXPECTED
                ))
            })
        },
        text: Network::to_string,
    },
    max: 256,
    what: "networks",
};

/// Headers that name a request's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedFields {
    /// `X-Forwarded-For` and related headers.
    pub x_forwarded: bool,
    /// `Forwarded`, RFC 7239.
    pub forwarded: bool,
}

impl ForwardedFields {
    const X_FORWARDED: Self = Self::these(true, false);
    const BOTH: Self = Self::these(true, true);
    const NAMES: [(&'static str, Self); 4] = [
        ("x_forwarded", Self::X_FORWARDED),
        ("forwarded", Self::these(false, true)),
        ("both", Self::BOTH),
        ("none", Self::these(false, false)),
    ];
    /// All but "none": trusting proxies and reading none of their headers makes no sense.
    const READABLE: &[(&'static str, Self)] = Self::NAMES.split_at(3).0;

    const fn these(x_forwarded: bool, forwarded: bool) -> Self {
        Self {
            x_forwarded,
            forwarded,
        }
    }
}

settings! {
    /// The proxies that are trusted to name a request's origin, and the headers that name it to
    /// replicas.
    pub struct ForwardedSettings in "forwarded" {
        /// Networks such as `"10.0.0.0/8"`, or addresses, of the proxies before this one whose
        /// headers are trusted.
        trust: Vec<Network> = Vec::new(), NETWORKS;
        /// Headers that those proxies write. Others are removed from their requests. With `"both"`,
        /// `X-Forwarded-For` has precedence.
        read: ForwardedFields = ForwardedFields::X_FORWARDED, Choice(ForwardedFields::READABLE);
        /// Headers sent to replicas: `X-Forwarded-For` and `X-Forwarded-Proto`, or `Forwarded` with
        /// `for`, `host` and `proto`.
        send: ForwardedFields = ForwardedFields::X_FORWARDED, Choice(&ForwardedFields::NAMES);
    }
}

impl ForwardedSettings {
    /// Settings of an agent. It trusts all balancers, because only they know which clients to
    /// trust.
    pub fn of_agent() -> Self {
        use core::net::{Ipv4Addr, Ipv6Addr};
        Self {
            trust: vec![
                Network::all(Ipv4Addr::UNSPECIFIED.into()),
                Network::all(Ipv6Addr::UNSPECIFIED.into()),
            ],
            read: ForwardedFields::BOTH,
            send: ForwardedFields::X_FORWARDED,
        }
    }
}

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "only tests call this"
)]
impl ForwardedSettings {
    /// Parses the section's text.
    pub fn of_toml(section: &str) -> Self {
        use crate::table;
        use crate::toml_reader::{Reader, Source};
        let source = Source::new("test.toml".into(), format!("[forwarded]\n{section}"));
        let mut reader = Reader::new(Some(&source), Vec::new()).expect("TOML");
        let settings = table::read(&mut reader, "");
        let (_, mistakes) = reader.finish();
        assert!(mistakes.is_empty(), "{mistakes:?}");
        settings
    }
}
