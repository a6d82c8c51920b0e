//! The section `[probe]`: what carries probes, where they go, and the key that signs them.
//!
//! The key is never part of the configuration's text, only the name of a file that holds it, so
//! that a configuration can be shown, logged and kept under version control.

use super::model::{ProbeKey, ProbeSettings, ProbeTransport};
use super::show::file_name;
use super::tls::file_name_of;
use crate::table::{self, Boolean, Choice, FILE, Maybe, Port, Within, Written, field, settings};
use crate::toml_reader::values::Unfit;
use crate::toml_reader::{Item, Reader, Remark, Said, Setting, Severity, read_bounded};
use core::num::NonZeroU16;
use data_encoding::HEXLOWER_PERMISSIVE;
use http::uri::PathAndQuery;
use std::path::{Path, PathBuf};

settings! {
    /// The keys of the section as they are written.
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
    } then {
        /// A file with 32 to 128 hexadecimal digits: the key, shared with the replicas, that signs
        /// probes and answers. Keep it at mode 600; it is never logged.
        key_file: FILE, "none: unsigned";
    }
}

/// What is asked for: a path, and perhaps a query.
pub(super) const PATH: Written<PathAndQuery> = Written {
    what: PATH_EXPECTED,
    expected: PATH_EXPECTED,
    parse: |written| {
        let path = Some(written).filter(|path| path.starts_with('/'));
        path.and_then(|path| path.parse().ok()).ok_or(Unfit::Range)
    },
    text: PathAndQuery::to_string,
};

const PATH_EXPECTED: &str = "a path such as \"/prequal/probe\"";

/// The settings, where they were said, and what is to be remarked on the key's file.
#[derive(Debug)]
pub(super) struct ProbeSection {
    pub(super) transport: Setting<ProbeTransport>,
    pub(super) port: Option<NonZeroU16>,
    keys: ProbeKeys,
    /// Where keys that only HTTP probes have were said.
    path_at: Option<Said>,
    tls_at: Option<Said>,
    key: Option<(ProbeKey, PathBuf)>,
    key_remark: Option<Remark>,
}

impl ProbeSection {
    /// Reads the section.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let keys: ProbeKeys = table::read(reader, prefix);
        let said = |name| reader.said(&field::<ProbeKeys>(prefix, name));
        let transport = Setting {
            value: keys.transport,
            said: said("transport"),
        };
        let (path_at, tls_at) = (said("path"), said("tls"));
        let (key, key_remark) = read_key_file(reader, prefix);
        Self {
            transport,
            port: keys.port,
            keys,
            path_at,
            tls_at,
            key,
            key_remark,
        }
    }

    /// What was said and does nothing with this transport, and what is unsafe.
    pub(super) fn remarks(&self) -> Vec<Remark> {
        let transport = self.transport.value;
        let needed = ProbeTransport::Http;
        let idle = |said: Option<&Said>| {
            let said = said.filter(|_| transport != needed)?;
            Some(Remark {
                severity: Severity::Warning,
                about: said.mistake(format!(
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

    /// Whether there is TLS for probes to go over.
    pub(super) fn note_tls(&self, reader: &mut Reader<'_>, has_tls: bool) {
        if let (Some(true), Some(said)) = (self.keys.tls, &self.tls_at)
            && !has_tls
        {
            reader.add_mistake(said.mistake(
                "found true, expected a section [replica.tls], which says how replicas are verified",
            ));
        }
    }

    /// The settings, for replicas whose requests go over TLS or not.
    pub(super) fn into_settings(self, has_tls: bool) -> ProbeSettings {
        let (key, key_file) = self.key.unzip();
        ProbeSettings {
            transport: self.keys.transport,
            port: self.keys.port,
            path: self.keys.path,
            tls: has_tls && self.keys.tls.unwrap_or(true),
            key,
            key_file,
        }
    }
}

impl ProbeSettings {
    /// Writes the section as it is in force.
    pub(super) fn write(&self, to: &mut String, prefix: &str, has_tls: bool) {
        let keys = ProbeKeys {
            transport: self.transport,
            port: self.port,
            path: self.path.clone(),
            tls: has_tls.then_some(self.tls),
        };
        let key_file = self.key_file.as_deref().map(file_name);
        let keys = table::shown_with(&keys, &[("key_file", key_file)]);
        table::write_keys(to, &format!("{prefix}probe"), keys);
    }
}

/// The key `probe.key_file`, and what is to be remarked on the file.
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

/// What `parse` makes of what is in the file that `field` names, blanks around it left out; and
/// what is to be remarked if everybody can read that file.
pub(super) fn read_secret<T>(
    reader: &mut Reader<'_>,
    field: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, &'static str>,
) -> (Option<(T, PathBuf)>, Option<Remark>) {
    let Some(item) = reader.take(field) else {
        return (None, None);
    };
    let read = file_name_of(reader, &item).and_then(|file| {
        // "there is no such file" has no subject of its own.
        let bytes = read_bounded(&file);
        let bytes = bytes.map_err(|why| item.mistake(format!("{}: {why}", file.display())))?;
        let secret = parse(bytes.trim_ascii());
        let secret = secret.map_err(|why| item.mistake(format!("{} {why}", file.display())))?;
        Ok((secret, file))
    });
    let value = reader.note(read);
    let remark = value.as_ref().and_then(|(_, file)| exposed(&item, file));
    (value, remark)
}

/// What is to be remarked on a file with a secret that everybody can read.
pub(super) fn exposed(item: &Item<'_>, file: &Path) -> Option<Remark> {
    readable_by_all(file).then(|| Remark {
        severity: Severity::Warning,
        about: item.mistake(format!(
            "{} can be read by everybody on this machine; chmod 600 keeps it secret",
            file.display()
        )),
    })
}

#[cfg(unix)]
pub(super) fn readable_by_all(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
pub(super) fn readable_by_all(_file: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_pairs_of_digits_and_nothing_else() {
        let decoded = |digits: &[u8]| HEXLOWER_PERMISSIVE.decode(digits).ok();
        assert_eq!(decoded(b"00fFa5"), Some(vec![0x00, 0xff, 0xa5]));
        assert_eq!(decoded(b""), Some(Vec::new()));
        for wrong in ["0", "0g", "0x00", "00 00", "+1", "00\n00"] {
            assert_eq!(decoded(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_key_tells_its_length_and_no_more() {
        let key = ProbeKey::new(vec![0xAB; 32]).expect("32 bytes");
        assert_eq!(format!("{key:?}"), "ProbeKey(32 bytes)");
        assert_eq!(key.as_bytes(), [0xAB; 32]);
        assert_eq!(ProbeKey::new(vec![0; 15]), None);
        assert_eq!(ProbeKey::new(vec![0; 65]), None);
    }
}
