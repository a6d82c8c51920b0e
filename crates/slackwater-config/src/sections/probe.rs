//! The section `[probe]`: what carries probes, where they go, and the key that signs them.
//!
//! The configuration never contains the key, only the name of a file that holds it, so that a
//! configuration can be shown, logged and kept under version control.

use super::files::{file_name, read_secret};
use super::idle::is_other;
use super::kinds::PATH;
use super::model::{ProbeKey, ProbeSettings, ProbeTransport};
use super::probe_hint::{HINT, ProbeHint};
use crate::table::{self, Boolean, Choice, FILE, Maybe, Number, Port, Within, field, settings};
use crate::toml_reader::{Definition, Reader, Remark, Setting, Severity};
use core::num::NonZeroU16;
use data_encoding::HEXLOWER_PERMISSIVE;
use http::uri::PathAndQuery;
use slackwater_core::keys::KeySettings;
use std::path::PathBuf;

settings! {
    /// The keys of the section in a file.
    pub(super) struct ProbeKeys in "probe" {
        /// What carries probes. `"none"`: no probes; not with the policies `"prequal_sync"`,
        /// `"polled_power_of_d"` and `"weighted_round_robin"`.
        transport: ProbeTransport = ProbeTransport::Udp, Choice(ProbeTransport::NAMES);
        /// The port of probes to every replica without a `probe` of its own.
        port: Option<NonZeroU16> = None, Maybe(Within(Port, NonZeroU16::MIN..=NonZeroU16::MAX)), "the replica's port";
        /// The path of HTTP probes.
        path: PathAndQuery = PathAndQuery::from_static("/prequal/probe"), PATH;
        /// Sends HTTP probes over TLS. UDP probes never use it.
        tls: Option<bool> = None, Maybe(Boolean), "`true` with `[replica.tls]`";
        /// What a request's probes, and the request itself in `x-slackwater-hint`, carry: its key,
        /// or a header. Only with `"prequal_sync"`. UDP probes are plain text: name no secret,
        /// such as `authorization`.
        hint: ProbeHint = ProbeHint::None, HINT;
        /// The first replicas of the key's set, which its probes go to; others are random.
        hint_homes: u8 = KeySettings::default().hint_homes, Within(Number, 0..=8);
    } then {
        /// A file with 32 to 128 hexadecimal digits: the key, shared with the replicas, that signs
        /// probes and answers. Keep it at mode 600; it is never logged.
        key_file: FILE, "none: unsigned";
    }
}

/// The settings, where they were set, and a remark on the key's file.
#[derive(Debug)]
pub(super) struct ProbeSection {
    pub(super) transport: Setting<ProbeTransport>,
    pub(super) port: Option<NonZeroU16>,
    keys: ProbeKeys,
    /// Where these keys were set to another value than their default.
    path_at: Option<Definition>,
    tls_at: Option<Definition>,
    hint_at: Option<Definition>,
    hint_homes_at: Option<Definition>,
    key: Option<(ProbeKey, PathBuf)>,
    key_remark: Option<Remark>,
}

impl ProbeSection {
    /// Reads the section.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let keys: ProbeKeys = table::read(reader, prefix);
        let definition = |name| reader.definition(&field::<ProbeKeys>(prefix, name));
        let transport = Setting {
            value: keys.transport,
            definition: definition("transport"),
        };
        let definition = |name| definition(name).filter(|_| is_other(&keys, name));
        let (path_at, tls_at) = (definition("path"), definition("tls"));
        let (hint_at, hint_homes_at) = (definition("hint"), definition("hint_homes"));
        let (key, key_remark) = read_key_file(reader, prefix);
        Self {
            transport,
            port: keys.port,
            keys,
            path_at,
            tls_at,
            hint_at,
            hint_homes_at,
            key,
            key_remark,
        }
    }

    /// Whether every key has its default.
    pub(super) fn is_default(&self) -> bool {
        self.keys == ProbeKeys::default() && self.key.is_none()
    }

    /// What probes carry.
    pub(super) const fn hint(&self) -> &ProbeHint {
        &self.keys.hint
    }

    /// Replicas of a key's set that are probed for it.
    pub(super) const fn hint_homes(&self) -> u8 {
        self.keys.hint_homes
    }

    /// Where the hint was set.
    pub(super) const fn hint_at(&self) -> Option<&Definition> {
        self.hint_at.as_ref()
    }

    /// Where the number of hinted replicas was set.
    pub(super) const fn hint_homes_at(&self) -> Option<&Definition> {
        self.hint_homes_at.as_ref()
    }

    /// Returns remarks on keys that have no effect with this transport, and on unsafe settings.
    pub(super) fn remarks(&self) -> Vec<Remark> {
        let transport = self.transport.value;
        let needed = ProbeTransport::Http;
        let idle = |definition: Option<&Definition>| {
            let definition = definition.filter(|_| transport != needed)?;
            Some(Remark {
                severity: Severity::Warning,
                about: definition.mistake(format!(
                    "does nothing with probe.transport = {:?}, only with {:?}",
                    transport.as_str(),
                    needed.as_str()
                )),
            })
        };
        idle(self.path_at.as_ref())
            .into_iter()
            .chain(idle(self.tls_at.as_ref()))
            .chain(self.key_remark.clone())
            .collect()
    }

    /// Records a mistake if probes need TLS and replicas have none.
    pub(super) fn note_tls(&self, reader: &mut Reader<'_>, has_tls: bool) {
        if let (Some(true), Some(definition)) = (self.keys.tls, &self.tls_at)
            && !has_tls
        {
            reader.add_mistake(definition.mistake(
                "found true, expected a section [replica.tls], which says how replicas are verified",
            ));
        }
    }

    /// The settings, given whether requests to the replicas use TLS.
    pub(super) fn into_settings(self, has_tls: bool) -> ProbeSettings {
        let (key, key_file) = self.key.unzip();
        ProbeSettings {
            transport: self.keys.transport,
            port: self.keys.port,
            path: self.keys.path,
            tls: has_tls && self.keys.tls.unwrap_or(true),
            hint: self.keys.hint,
            hint_homes: self.keys.hint_homes,
            key,
            key_file,
        }
    }
}

impl ProbeSettings {
    /// Writes the section with the values in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str, has_tls: bool) {
        let keys = ProbeKeys {
            transport: self.transport,
            port: self.port,
            path: self.path.clone(),
            // A `true` that follows from the replicas' TLS would be idle without HTTP probes.
            tls: (has_tls && (self.transport == ProbeTransport::Http || !self.tls))
                .then_some(self.tls),
            hint: self.hint.clone(),
            hint_homes: self.hint_homes,
        };
        let key_file = self.key_file.as_deref().map(file_name);
        let keys = table::shown_with(&keys, &[("key_file", key_file)]);
        table::write_keys(to, &format!("{prefix}probe"), keys);
    }
}

/// Reads the key `probe.key_file`, with a remark if others can read the file.
pub(super) fn read_key_file(
    reader: &mut Reader<'_>,
    prefix: &str,
) -> (Option<(ProbeKey, PathBuf)>, Option<Remark>) {
    read_secret(reader, &format!("{prefix}probe.key_file"), |bytes| {
        let secret = HEXLOWER_PERMISSIVE.decode(bytes).ok();
        secret.and_then(ProbeKey::new).ok_or(
            "does not hold a key, expected from 32 to 128 hexadecimal digits and nothing else",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_consists_of_digit_pairs_only() {
        let decoded = |digits: &[u8]| HEXLOWER_PERMISSIVE.decode(digits).ok();
        assert_eq!(decoded(b"00fFa5"), Some(vec![0x00, 0xff, 0xa5]));
        assert_eq!(decoded(b""), Some(Vec::new()));
        for wrong in ["0", "0g", "0x00", "00 00", "+1", "00\n00"] {
            assert_eq!(decoded(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_shows_only_its_length() {
        let key = ProbeKey::new(vec![0xAB; 32]).expect("32 bytes");
        assert_eq!(format!("{key:?}"), "ProbeKey(32 bytes)");
        assert_eq!(key.as_bytes(), [0xAB; 32]);
        assert_eq!(ProbeKey::new(vec![0; 15]), None);
        assert_eq!(ProbeKey::new(vec![0; 65]), None);
    }
}
