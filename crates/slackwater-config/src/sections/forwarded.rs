//! The section `[forwarded]`: whose word on a request's origin is believed, and in which fields ours is given.

use super::network::Network;
use crate::toml_reader::values::{one_of, text};
use crate::toml_reader::{Item, Reader};
use core::fmt::{self, Write};

/// The most networks to trust.
const TRUST_MAX: usize = 256;

/// Fields that tell a request's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedFields {
    /// `X-Forwarded-For` and its kin.
    pub x_forwarded: bool,
    /// `Forwarded`. RFC 7239
    pub forwarded: bool,
}

impl ForwardedFields {
    const X_FORWARDED: Self = Self {
        x_forwarded: true,
        forwarded: false,
    };
    const FORWARDED: Self = Self {
        x_forwarded: false,
        forwarded: true,
    };
    const BOTH: Self = Self {
        x_forwarded: true,
        forwarded: true,
    };
    const NONE: Self = Self {
        x_forwarded: false,
        forwarded: false,
    };
    const NAMES: [(&'static str, Self); 4] = [
        ("x_forwarded", Self::X_FORWARDED),
        ("forwarded", Self::FORWARDED),
        ("both", Self::BOTH),
        ("none", Self::NONE),
    ];

    fn as_str(self) -> &'static str {
        let named = Self::NAMES.iter().find(|named| named.1 == self);
        named.map_or("none", |named| named.0)
    }
}

/// Whose word on a request's origin is believed, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedSettings {
    /// Clients that are proxies of the operator's: up to 256 networks, default none. From all others the fields are taken
    /// out.
    pub trust: Vec<Network>,
    /// What those proxies are known to write, and so what is believed of theirs; default `X-Forwarded-*`. The other
    /// fields are taken out, because nobody answers for them.
    pub read: ForwardedFields,
    /// What replicas are told; default `X-Forwarded-*`.
    pub send: ForwardedFields,
}

impl Default for ForwardedSettings {
    fn default() -> Self {
        Self {
            trust: Vec::new(),
            read: ForwardedFields::X_FORWARDED,
            send: ForwardedFields::X_FORWARDED,
        }
    }
}

impl ForwardedSettings {
    /// An agent's, which has to take balancers at their word: they, and not it, know who may be believed.
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

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let default = Self::default();
        let trust = read_networks(reader, "forwarded.trust");
        let mut fields = |key, default: ForwardedFields, names: &[_]| {
            reader.setting(key, default, "", |value| one_of(value, names))
        };
        // Who trusts proxies that say nothing has nothing to trust.
        let readable = &ForwardedFields::NAMES[..3];
        Self {
            trust,
            read: fields("forwarded.read", default.read, readable).value,
            send: fields("forwarded.send", default.send, &ForwardedFields::NAMES).value,
        }
    }

    pub(super) fn write_toml(&self, to: &mut String) -> fmt::Result {
        let trust: Vec<_> = self.trust.iter().map(|net| format!("\"{net}\"")).collect();
        writeln!(to, "[forwarded]\ntrust = [{}]", trust.join(", "))?;
        writeln!(to, "read = \"{}\"", self.read.as_str())?;
        writeln!(to, "send = \"{}\"\n", self.send.as_str())
    }
}

/// A list of networks.
pub(super) fn read_networks(reader: &mut Reader<'_>, field: &str) -> Vec<Network> {
    let items = reader.take_list(field).unwrap_or_default();
    if let Some(item) = items.get(TRUST_MAX) {
        reader.add_mistake(item.mistake(format!(
            "is one too many, expected at most {TRUST_MAX} networks"
        )));
    }
    let items = items.iter().take(TRUST_MAX);
    items
        .filter_map(|item| reader.note(read_network(item)))
        .collect()
}

fn read_network(item: &Item<'_>) -> Result<Network, crate::toml_reader::Mistake> {
    let written = item.read(|value| text(value, Network::EXPECTED), Network::EXPECTED)?;
    written.parse().map_err(|why| {
        let expected = Network::EXPECTED;
        item.mistake(format!("found {written:?}: {why}; expected {expected}"))
    })
}

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "only tests call this"
)]
impl ForwardedSettings {
    /// The section's text as settings.
    pub fn of_toml(section: &str) -> Self {
        use crate::toml_reader::Source;
        let source = Source::new("test.toml".into(), format!("[forwarded]\n{section}"));
        let mut reader = Reader::new(Some(&source), Vec::new()).expect("TOML");
        let settings = Self::read(&mut reader);
        let (_, mistakes) = reader.finish();
        assert!(mistakes.is_empty(), "{mistakes:?}");
        settings
    }
}
