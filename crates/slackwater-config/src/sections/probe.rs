//! The section `[probe]`: what carries probes, where they go, and the key that signs them.
//!
//! The key is never part of the configuration's text, only the name of a file that holds it, so that a configuration can
//! be shown, logged and kept under version control.

use super::model::{ProbeKey, ProbeSettings, ProbeTransport};
use crate::toml_reader::values::{Unfit, boolean, found, nonzero, one_of, text};
use crate::toml_reader::{Item, Mistake, Place, Reader, Remark, Setting, Severity, read_bounded};
use core::num::NonZeroU16;
use http::uri::PathAndQuery;
use std::path::{Path, PathBuf};
use toml::de::DeValue;

/// Where the HTTP responder of ours answers.
const PATH: &str = "/prequal/probe";

/// The settings, where they were said, and what is to be remarked on the key's file.
#[derive(Debug)]
pub(super) struct ProbeSection {
    pub(super) transport: Setting<ProbeTransport>,
    pub(super) port: Setting<Option<NonZeroU16>>,
    path: Setting<PathAndQuery>,
    tls: Setting<Option<bool>>,
    key: Setting<Option<(ProbeKey, PathBuf)>>,
    key_remark: Option<Remark>,
}

impl ProbeSection {
    /// Reads `[probe]`, or `[services.NAME.probe]` where `prefix` says so.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str) -> Self {
        let key = |name| format!("{prefix}probe.{name}");
        let transport = reader.setting(&key("transport"), ProbeTransport::Udp, "", |value| {
            one_of(value, &ProbeTransport::NAMES)
        });
        let port = reader.setting(&key("port"), None, "a port from 1 to 65535", |value| {
            nonzero(value).map(Some)
        });
        let path = reader.setting(
            &key("path"),
            PathAndQuery::from_static(PATH),
            "",
            parse_path,
        );
        let tls = reader.setting(&key("tls"), None, "", |value| boolean(value).map(Some));
        let mut section = Self {
            transport,
            port,
            path,
            tls,
            key: Setting {
                value: None,
                said: None,
            },
            key_remark: None,
        };
        (section.key, section.key_remark) = read_key_file(reader, prefix);
        section
    }

    /// What was said and does nothing with this transport, and what is unsafe.
    pub(super) fn remarks(&self) -> Vec<Remark> {
        let transport = self.transport.value;
        let idle = |said: Option<&crate::toml_reader::Said>, needed: ProbeTransport| {
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
        idle(self.path.said.as_ref(), ProbeTransport::Http)
            .into_iter()
            .chain(idle(self.tls.said.as_ref(), ProbeTransport::Http))
            .chain(self.key_remark.clone())
            .collect()
    }

    /// Whether there is TLS for probes to go over.
    pub(super) fn note_tls(&self, reader: &mut Reader<'_>, has_tls: bool) {
        if let (Some(true), Some(said)) = (self.tls.value, &self.tls.said)
            && !has_tls
        {
            reader.add_mistake(said.mistake(
                "found true, expected a section [replica.tls], which says how replicas are verified",
            ));
        }
    }

    /// The settings, for replicas whose requests go over TLS or not.
    pub(super) fn into_settings(self, has_tls: bool) -> ProbeSettings {
        let (key, key_file) = self.key.value.unzip();
        ProbeSettings {
            transport: self.transport.value,
            port: self.port.value,
            path: self.path.value,
            tls: has_tls && self.tls.value.unwrap_or(true),
            key,
            key_file,
        }
    }
}

pub(super) fn parse_path(value: &DeValue<'_>) -> Result<PathAndQuery, Unfit> {
    const EXPECTED: &str = "a path such as \"/prequal/probe\"";
    let written = text(value, EXPECTED)?;
    (Some(written).filter(|path| path.starts_with('/')))
        .and_then(|path| path.parse().ok())
        .ok_or_else(|| Unfit::Other(format!("found {}, expected {EXPECTED}", found(value))))
}

/// The key `probe.key_file`, and what is to be remarked on the file. A relative name in a configuration file starts from
/// that file's own directory.
pub(super) fn read_key_file(
    reader: &mut Reader<'_>,
    prefix: &str,
) -> (Setting<Option<(ProbeKey, PathBuf)>>, Option<Remark>) {
    let Some(item) = reader.take(&format!("{prefix}probe.key_file")) else {
        return (
            Setting {
                value: None,
                said: None,
            },
            None,
        );
    };
    let (value, remark) = read_secret(reader, &item, read_key);
    let said = Some(item.said);
    (Setting { value, said }, remark)
}

/// What `read` makes of the file that `item` names, given the directory that relative names start from; and what is to be
/// remarked if everybody can read that file.
pub(super) fn read_secret<T>(
    reader: &mut Reader<'_>,
    item: &Item<'_>,
    read: impl FnOnce(&Item<'_>, Option<&Path>) -> Result<(T, PathBuf), Mistake>,
) -> (Option<(T, PathBuf)>, Option<Remark>) {
    let source = reader
        .source()
        .filter(|_| matches!(item.said.place, Place::Line { .. }));
    let base = source.and_then(|source| source.file().parent());
    let value = reader.note(read(item, base));
    let remark = value.as_ref().and_then(|(_, file)| exposed(item, file));
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

/// The key in a file of hexadecimal digits.
fn read_key(item: &Item<'_>, base: Option<&Path>) -> Result<(ProbeKey, PathBuf), Mistake> {
    let written = item.read(|value| text(value, "the name of a file"), "")?;
    let file = base.map_or_else(|| PathBuf::from(written), |base| base.join(written));
    let told = |message: &str| item.mistake(format!("{} {message}", file.display()));
    let bytes = read_bounded(&file).map_err(|why| {
        // "there is no such file" has no subject of its own.
        item.mistake(format!("{}: {why}", file.display()))
    })?;
    let key = decode_hex(bytes.trim_ascii()).and_then(ProbeKey::new);
    let key = key.ok_or_else(|| {
        told("does not hold a key, expected from 32 to 128 hexadecimal digits and nothing else")
    })?;
    Ok((key, file))
}

fn decode_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
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
        assert_eq!(decode_hex(b"00fFa5"), Some(vec![0x00, 0xff, 0xa5]));
        assert_eq!(decode_hex(b""), Some(Vec::new()));
        for wrong in ["0", "0g", "0x00", "00 00", "+1"] {
            assert_eq!(decode_hex(wrong.as_bytes()), None, "{wrong}");
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
