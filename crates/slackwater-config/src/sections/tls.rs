//! TLS: the section of a listener (`tls`) and that of replicas (`replica.tls`), each read under whatever prefix it has.
//!
//! Their files are read here once, to tell mistakes before anything starts. What is served by is read again by `tls`,
//! which follows them from then on.

use super::assemble::count;
use super::probe::readable_by_all;
use crate::tls::{
    ClientCertificates, ClientTls, HttpVersion, Identity, IdentityFiles, Resumption, ServerTls,
    TlsVersion, read_roots, system_roots,
};
use crate::toml_reader::values::{Unfit, boolean, found, one_of, text, whole, within};
use crate::toml_reader::{Item, Mistake, Place, Reader, Remark, Said, Severity};
use rustls::pki_types::ServerName;
use std::path::PathBuf;
use std::time::SystemTime;
use toml::de::DeValue;

const FILE_EXPECTED: &str = "the name of a file";
const CERTIFICATES_EXPECTED: &str = "a list such as [{ certificate = \"a.pem\", key = \"a.key\" }]";
const CERTIFICATES_MAX: usize = 1024;
const SESSIONS_MAX: u32 = 4096;
const SESSIONS_LIMIT: u32 = 1 << 20;

/// TLS at a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    /// What it offers.
    pub server: ServerTls,
    /// Whether replicas are told clients' verified certificates, as `Client-Cert`; default no.
    pub pass_client_certificate: bool,
    /// Handshakes at once in one worker: 1 to 65,536, default 1,024. One more ends the oldest.
    pub handshakes_max: u32,
}

const CLIENTS: [(&str, bool); 2] = [("required", true), ("optional", false)];

impl ListenerTls {
    /// How clients prove themselves, as the configuration calls it.
    pub(super) fn client_certificates(&self) -> Option<&'static str> {
        let required = self.server.clients.as_ref()?.required;
        (CLIENTS.iter()).find_map(|(name, value)| (*value == required).then_some(*name))
    }
}

impl TlsVersion {
    const NAMES: [(&'static str, Self); 2] = [("1.2", Self::Tls12), ("1.3", Self::Tls13)];

    /// Its name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}

impl HttpVersion {
    const NAMES: [(&'static str, Self); 2] = [("h2", Self::Http2), ("http/1.1", Self::Http1)];

    /// Its name in the configuration, which is ALPN's.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
        }
    }
}

/// A listener's section, at `section`; `None` where there is none, or after mistakes.
pub(super) fn read_listener_tls(
    reader: &mut Reader<'_>,
    section: &str,
    remarks: &mut Vec<Remark>,
) -> Option<ListenerTls> {
    let is_there = reader.has(section);
    let key = |name: &str| format!("{section}.{name}");
    let certificates = read_certificates(reader, section, is_there, remarks);
    let client_ca = reader.take(&key("client_ca"));
    let required = reader.setting(&key("client_certificates"), true, "", |value| {
        one_of(value, &CLIENTS)
    });
    let pass = reader.setting(&key("pass_client_certificate"), false, "", boolean);
    for said in [&required.said, &pass.said].into_iter().flatten() {
        if client_ca.is_none() {
            reader.add_mistake(said.mistake(
                "needs client_ca, the file with the authorities that clients' certificates are from",
            ));
        }
    }
    let clients = client_ca.and_then(|item| {
        let ca = read_ca(reader, &item)?;
        Some(ClientCertificates {
            ca,
            required: required.value,
        })
    });
    let version_min = reader.setting(&key("version_min"), TlsVersion::Tls12, "", |value| {
        one_of(value, &TlsVersion::NAMES)
    });
    let protocols = read_protocols(reader, &key("protocols"));
    let resumption = read_resumption(reader, section, clients.is_some());
    let handshakes_max = count(reader, &key("handshakes_max"), 1024, 1..=65_536);
    if !is_there || certificates.is_empty() {
        return None;
    }
    Some(ListenerTls {
        server: ServerTls {
            certificates,
            clients,
            version_min: version_min.value,
            protocols,
            resumption,
        },
        pass_client_certificate: pass.value,
        handshakes_max,
    })
}

/// The keys `tickets` and `sessions_max`. A resumed session is not verified again, so clients that prove themselves have
/// none: a certificate would be good beyond its end.
fn read_resumption(reader: &mut Reader<'_>, section: &str, has_clients: bool) -> Resumption {
    let key = |name: &str| format!("{section}.{name}");
    let tickets = reader.setting(&key("tickets"), !has_clients, "", boolean);
    let default = if has_clients { 0 } else { SESSIONS_MAX };
    let told = format!("a number from 0 to {SESSIONS_LIMIT}");
    let parse = |value: &_| whole(value).and_then(|number| within(number, &(0..=SESSIONS_LIMIT)));
    let sessions_max = reader.setting(&key("sessions_max"), default, &told, parse);
    for (is_asked_for, said, without) in [
        (tickets.value, &tickets.said, "false"),
        (sessions_max.value > 0, &sessions_max.said, "0"),
    ] {
        if let Some(said) = said.as_ref().filter(|_| has_clients && is_asked_for) {
            reader.add_mistake(said.mistake(format!(
                "cannot be with client_ca: a resumed session is not verified again, so a certificate would be good beyond \
                 its end; expected {without}"
            )));
        }
    }
    Resumption {
        tickets: tickets.value,
        sessions_max: sessions_max.value as usize,
    }
}

/// The key `certificates`: at least one, each readable, unless mistakes were noted.
fn read_certificates(
    reader: &mut Reader<'_>,
    section: &str,
    is_there: bool,
    remarks: &mut Vec<Remark>,
) -> Vec<IdentityFiles> {
    let field = format!("{section}.certificates");
    let Some(items) = reader.take_list(&field) else {
        // Asked for all the same, so that they are known to exist.
        let _ = read_identity(reader, &format!("{field}[0]"), remarks);
        if is_there {
            reader.add_missing_key(&field, CERTIFICATES_EXPECTED);
        }
        return Vec::new();
    };
    if items.is_empty() || items.len() > CERTIFICATES_MAX {
        let count = items.len();
        reader.add_mistake_near(
            &field,
            format!("found a list of {count}, expected from 1 to {CERTIFICATES_MAX}"),
        );
        return Vec::new();
    }
    let mut certificates = Vec::new();
    for item in items {
        if !matches!(item.value, DeValue::Table(_)) {
            let found = found(&item.value);
            reader.add_mistake(
                item.mistake(format!("found {found}, expected {CERTIFICATES_EXPECTED}")),
            );
            continue;
        }
        match read_identity(reader, &item.said.field, remarks) {
            Ok(Some(files)) => certificates.push(files),
            Ok(None) => reader.add_mistake(
                item.mistake("names no file, expected certificate = \"a.pem\", key = \"a.key\""),
            ),
            Err(Noted) => (),
        }
    }
    certificates
}

/// What was wrong has been noted.
pub(super) struct Noted;

/// The keys `certificate` and `key` at `section`: both or none.
pub(super) fn read_identity(
    reader: &mut Reader<'_>,
    section: &str,
    remarks: &mut Vec<Remark>,
) -> Result<Option<IdentityFiles>, Noted> {
    let [certificate, key] = ["certificate", "key"].map(|name| format!("{section}.{name}"));
    let items = (reader.take(&certificate), reader.take(&key));
    let (certificate, key) = match items {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(present), None) | (None, Some(present)) => {
            let missing = if present.said.field == certificate {
                "key"
            } else {
                "certificate"
            };
            reader.add_mistake(present.mistake(format!(
                "stands without {missing}, expected both: certificate = \"a.pem\", key = \"a.key\""
            )));
            return Err(Noted);
        }
    };
    let files = IdentityFiles {
        certificate: read_file_name(reader, &certificate).ok_or(Noted)?,
        key: read_file_name(reader, &key).ok_or(Noted)?,
    };
    let identity = match Identity::read(&files) {
        Ok(identity) => identity,
        Err(flaw) => {
            let item = if flaw.is_of(&files.key) && files.key != files.certificate {
                &key
            } else {
                &certificate
            };
            reader.add_mistake(item.mistake(flaw.to_string()));
            return Err(Noted);
        }
    };
    let mut warn = |said: &Said, message: String| {
        remarks.push(Remark {
            severity: Severity::Warning,
            about: said.mistake(message),
        });
    };
    if let Some(remark) = identity.remark(SystemTime::now()) {
        warn(
            &certificate.said,
            format!("{}: {remark}", files.certificate.display()),
        );
    }
    if readable_by_all(&files.key) {
        let file = files.key.display();
        warn(
            &key.said,
            format!("{file} can be read by everybody on this machine; chmod 600 keeps it secret"),
        );
    }
    Ok(Some(files))
}

/// A file of authorities that can be used.
pub(super) fn read_ca(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<PathBuf> {
    let read = check_ca(reader, item);
    reader.note(read)
}

/// The same, for whoever says himself what becomes of a mistake.
pub(super) fn check_ca(reader: &Reader<'_>, item: &Item<'_>) -> Result<PathBuf, Mistake> {
    let file = file_name_of(reader, item)?;
    let read = read_roots(&file).map_err(|flaw| item.mistake(flaw.to_string()));
    read.map(|_| file)
}

/// A relative name in a configuration file starts from that file's own directory.
pub(super) fn read_file_name(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<PathBuf> {
    let read = file_name_of(reader, item);
    reader.note(read)
}

fn file_name_of(reader: &Reader<'_>, item: &Item<'_>) -> Result<PathBuf, Mistake> {
    let written = item.read(|value| text(value, FILE_EXPECTED), FILE_EXPECTED)?;
    let base = reader
        .source()
        .filter(|_| matches!(item.said.place, Place::Line { .. }))
        .and_then(|source| source.file().parent());
    Ok(base.map_or_else(|| PathBuf::from(written), |base| base.join(written)))
}

fn read_protocols(reader: &mut Reader<'_>, field: &str) -> Vec<HttpVersion> {
    let both = vec![HttpVersion::Http2, HttpVersion::Http1];
    let Some(items) = reader.take_list(field) else {
        return both;
    };
    let mut protocols = Vec::new();
    for item in &items {
        let read = item.read(|value| one_of(value, &HttpVersion::NAMES), "");
        match reader.note(read) {
            Some(protocol) if protocols.contains(&protocol) => {
                let name = protocol.as_str();
                reader.add_mistake(item.mistake(format!("{name:?} is given twice")));
            }
            Some(protocol) => protocols.push(protocol),
            None => (),
        }
    }
    if items.is_empty() {
        reader.add_mistake_near(
            field,
            "found an empty list, expected \"h2\", \"http/1.1\" or both".to_owned(),
        );
    }
    protocols
}

/// The section for replicas, at `section`; `None` where there is none, or after mistakes.
pub(super) fn read_replica_tls(
    reader: &mut Reader<'_>,
    section: &str,
    remarks: &mut Vec<Remark>,
) -> Option<ClientTls> {
    let is_there = reader.has_section(section);
    let key = |name: &str| format!("{section}.{name}");
    let ca_item = reader.take(&key("ca"));
    let server_name = reader.setting(&key("server_name"), None, "", |value| {
        parse_server_name(value).map(Some)
    });
    let verify = reader.setting(&key("verify"), true, "", parse_verify);
    let ca = ca_item.as_ref().map(|item| read_ca(reader, item));
    let identity = read_identity(reader, section, remarks);
    if !is_there {
        return None;
    }
    let ca = match ca {
        Some(read) => Some(read?),
        None => None,
    };
    if verify.value {
        if ca.is_none()
            && let Err(flaw) = system_roots()
        {
            reader.add_mistake_near(section, flaw.to_string());
        }
    } else if let Some(said) = &verify.said {
        remarks.push(Remark {
            severity: Severity::Warning,
            about: said.mistake(
                "replicas are not verified: whoever gets between can read and change everything",
            ),
        });
        for unused in [ca_item.map(|item| item.said), server_name.said.clone()] {
            remarks.extend(unused.map(|said| Remark {
                severity: Severity::Note,
                about: said.mistake("does not verify anything with verify = \"insecure\""),
            }));
        }
    }
    Some(ClientTls {
        ca,
        server_name: server_name.value,
        identity: identity.ok()?,
        verify: verify.value,
    })
}

fn parse_verify(value: &DeValue<'_>) -> Result<bool, Unfit> {
    match value {
        DeValue::Boolean(true) => Ok(true),
        DeValue::String(word) if word == "insecure" => Ok(false),
        other => Err(Unfit::Other(format!(
            "found {}, expected true, or \"insecure\" if anybody may pass for a replica",
            found(other)
        ))),
    }
}

pub(super) fn parse_server_name(value: &DeValue<'_>) -> Result<ServerName<'static>, Unfit> {
    const EXPECTED: &str = "a host name such as \"replica.internal\", or an address";
    let written = text(value, EXPECTED)?;
    ServerName::try_from(written.to_owned())
        .map_err(|_| Unfit::Other(format!("found {written:?}, expected {EXPECTED}")))
}
