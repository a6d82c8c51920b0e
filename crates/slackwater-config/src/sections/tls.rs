//! TLS: the section of a listener (`tls`) and that of replicas (`replica.tls`), each with its
//! prefix.
//!
//! The files are read here once, to report mistakes before anything starts. The module `tls` reads
//! them again for use, and watches them from then on.

use super::files::{file_name, read_file_name, readable_by_all};
use crate::table::{
    self, Boolean, Choice, Described, FILE, Judge, Kind, Maybe, Meaning, Number, Within, Written,
    choice, keys, settings,
};
use crate::tls::{
    ClientCertificates, ClientTls, HttpVersion, Identity, IdentityFiles, Resumption, ServerTls,
    TlsVersion, read_roots, system_roots,
};
use crate::toml_reader::values::{Unfit, found, quote};
use crate::toml_reader::{Definition, Item, Reader, Remark, Severity};
use rustls::pki_types::ServerName;
use serde_json::json;
use std::path::PathBuf;
use std::time::SystemTime;
use toml::de::DeValue;

const CERTIFICATES_EXPECTED: &str = "a list such as [{ certificate = \"a.pem\", key = \"a.key\" }]";
const CERTIFICATES_MAX: usize = 1024;
const SESSIONS_MAX: u32 = 4096;

/// TLS at a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    /// Settings of the TLS server.
    pub server: ServerTls,
    /// Whether replicas receive clients' verified certificates, as `Client-Cert`; default no.
    pub pass_client_certificate: bool,
    /// Handshakes at once in one worker: 1 to 65,536, default 1,024. One more ends the oldest.
    pub handshakes_max: u32,
}

settings! {
    /// The keys of a listener's section in a file.
    pub(super) struct ListenerKeys in "tls" first {
        /// Certificates with their keys. The name that the client asks for (SNI) selects one;
        /// without a match, the first.
        certificates: Described("a list of 1 to 1,024 tables", "{}"), "required";
        /// PEM: the certificate, then its chain. Relative paths start at the configuration's
        /// directory, here and below.
        certificate as "certificates[].certificate": FILE, "required";
        /// PEM without a passphrase: PKCS#8, SEC1 or PKCS#1; RSA, ECDSA or Ed25519. Keep it at mode
        /// 600.
        key as "certificates[].key": FILE, "required";
        /// PEM: the authorities that must have issued clients' certificates.
        client_ca: FILE, "none: clients are not asked";
    } fields {
        /// `"required"`: clients without a certificate are rejected. Needs `tls.client_ca`. A wrong
        /// certificate is rejected either way.
        client_certificates: bool = true, Choice(&[("required", true), ("optional", false)]);
        /// Sends the verified certificate to replicas in `client-cert` (RFC 9440). If any listener
        /// does, clients' own `client-cert` and `client-cert-chain` are removed at all listeners.
        pass_client_certificate: bool = false, Boolean;
        /// The oldest version of TLS that is accepted.
        version_min: TlsVersion = TlsVersion::Tls12, Choice(TlsVersion::NAMES);
        /// Protocols offered by ALPN, preferred first. A client without ALPN speaks HTTP/1.1.
        protocols: Vec<HttpVersion> = vec![HttpVersion::Http2, HttpVersion::Http1], Protocols, "both, `\"h2\"` first";
        /// Session tickets. Their key changes every 6 hours and is forgotten after 12. Not with
        /// `tls.client_ca`.
        tickets: Option<bool> = None, Maybe(Boolean), "`true`; `false` with `tls.client_ca`";
        /// Sessions kept for clients without tickets, over all workers. 0: none. Not with
        /// `tls.client_ca`.
        sessions_max: Option<u32> = None, Maybe(Within(Number, 0..=1 << 20)), "4,096; 0 with `tls.client_ca`";
        /// Concurrent handshakes of each worker. One more ends the oldest.
        handshakes_max: u32 = 1024, Within(Number, 1..=65_536);
    }
}

impl ListenerTls {
    /// Writes the section.
    pub(super) fn write(&self, to: &mut String, prefix: &str) {
        let server = &self.server;
        let keys = ListenerKeys {
            client_certificates: server
                .clients
                .as_ref()
                .is_some_and(|clients| clients.required),
            pass_client_certificate: self.pass_client_certificate,
            version_min: server.version_min,
            protocols: server.protocols.clone(),
            tickets: Some(server.resumption.tickets),
            sessions_max: u32::try_from(server.resumption.sessions_max).ok(),
            handshakes_max: self.handshakes_max,
        };
        let pairs = server.certificates.iter().map(|files| {
            let [(_, certificate), (_, key)] = identity_keys(files);
            format!("  {{ certificate = {certificate}, key = {key} }},\n")
        });
        let certificates = format!("[\n{}]", pairs.collect::<String>());
        let clients = server.clients.as_ref();
        let client_ca = clients.map(|clients| file_name(&clients.ca));
        let by_hand = [
            ("certificates", Some(certificates)),
            ("client_ca", client_ca),
        ];
        let mut keys = table::shown_with(&keys, &by_hand);
        keys.retain(|(name, _)| {
            clients.is_some() || !["client_certificates", "pass_client_certificate"].contains(name)
        });
        table::write_keys(to, &format!("{prefix}tls"), keys);
    }
}

/// The keys of a certificate and its key.
pub(super) fn identity_keys(files: &IdentityFiles) -> [(&'static str, String); 2] {
    [
        ("certificate", file_name(&files.certificate)),
        ("key", file_name(&files.key)),
    ]
}

/// Reads a listener's section below `prefix`; `None` if it is missing or wrong.
pub(super) fn read_listener_tls(
    reader: &mut Reader<'_>,
    prefix: &str,
    remarks: &mut Vec<Remark>,
) -> Option<ListenerTls> {
    let section = &format!("{prefix}tls");
    let is_there = reader.has(section);
    let key = |name: &str| format!("{section}.{name}");
    let certificates = read_certificates(reader, section, is_there, remarks);
    let client_ca = reader.take(&key("client_ca"));
    let keys: ListenerKeys = table::read(reader, prefix);
    for name in ["client_certificates", "pass_client_certificate"] {
        if let Some(definition) = reader
            .definition(&key(name))
            .filter(|_| client_ca.is_none())
        {
            reader.add_mistake(definition.mistake(
                "needs client_ca, the file with the authorities that clients' certificates are from",
            ));
        }
    }
    let clients = client_ca.and_then(|item| {
        let ca = read_ca(reader, &item)?;
        Some(ClientCertificates {
            ca,
            required: keys.client_certificates,
        })
    });
    let resumption = resumption(reader, section, &keys, clients.is_some());
    if !is_there || certificates.is_empty() {
        return None;
    }
    Some(ListenerTls {
        server: ServerTls {
            certificates,
            clients,
            version_min: keys.version_min,
            protocols: keys.protocols,
            resumption,
        },
        pass_client_certificate: keys.pass_client_certificate,
        handshakes_max: keys.handshakes_max,
    })
}

/// The effective `tickets` and `sessions_max`. A resumed session is not verified again, so clients
/// with certificates get none: their certificate would stay valid beyond its end.
fn resumption(
    reader: &mut Reader<'_>,
    section: &str,
    keys: &ListenerKeys,
    has_clients: bool,
) -> Resumption {
    for (is_asked_for, name, without) in [
        (keys.tickets == Some(true), "tickets", "false"),
        (keys.sessions_max > Some(0), "sessions_max", "0"),
    ] {
        let definition = reader.definition(&format!("{section}.{name}"));
        if let Some(definition) = definition.filter(|_| has_clients && is_asked_for) {
            reader.add_mistake(definition.mistake(format!(
                "cannot be with client_ca: a resumed session is not verified again, so a certificate would be good beyond \
                 its end; expected {without}"
            )));
        }
    }
    let sessions_max = if has_clients { 0 } else { SESSIONS_MAX };
    Resumption {
        tickets: keys.tickets.unwrap_or(!has_clients),
        sessions_max: keys.sessions_max.unwrap_or(sessions_max) as usize,
    }
}

/// Reads the key `certificates`: at least one, each readable, unless mistakes were recorded.
fn read_certificates(
    reader: &mut Reader<'_>,
    section: &str,
    is_there: bool,
    remarks: &mut Vec<Remark>,
) -> Vec<IdentityFiles> {
    let field = format!("{section}.certificates");
    let Some(items) = reader.take_list(&field) else {
        // Read it anyway, so that these keys count as known.
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
        match read_identity(reader, &item.definition.field, remarks) {
            Ok(Some(files)) => certificates.push(files),
            Ok(None) => reader.add_mistake(
                item.mistake("names no file, expected certificate = \"a.pem\", key = \"a.key\""),
            ),
            Err(Noted) => (),
        }
    }
    certificates
}

/// A mistake that has already been recorded.
pub(super) struct Noted;

/// Reads the keys `certificate` and `key` of `section`: both or none.
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
            let missing = if present.definition.field == certificate {
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
    // Both files are read together, because a key must belong to its certificate.
    let files = IdentityFiles {
        certificate: read_file_name(reader, &certificate).ok_or(Noted)?,
        key: read_file_name(reader, &key).ok_or(Noted)?,
    };
    let identity = match Identity::read(&files) {
        Ok(identity) => identity,
        Err(flaw) => {
            // Point at the key that names the faulty file.
            let item = if flaw.is_of(&files.key) && files.key != files.certificate {
                &key
            } else {
                &certificate
            };
            reader.add_mistake(item.mistake(flaw.to_string()));
            return Err(Noted);
        }
    };
    let mut warn = |definition: &Definition, message: String| {
        remarks.push(Remark {
            severity: Severity::Warning,
            about: definition.mistake(message),
        });
    };
    if let Some(remark) = identity.remark(SystemTime::now()) {
        warn(
            &certificate.definition,
            format!("{}: {remark}", files.certificate.display()),
        );
    }
    if readable_by_all(&files.key) {
        let file = files.key.display();
        warn(
            &key.definition,
            format!("{file} can be read by all users of this machine; chmod 600 keeps it secret"),
        );
    }
    Ok(Some(files))
}

/// Reads a file of authorities, and checks that it can be used.
pub(super) fn read_ca(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<PathBuf> {
    let file = read_file_name(reader, item)?;
    let read = read_roots(&file).map_err(|flaw| item.mistake(flaw.to_string()));
    reader.note(read).map(|_| file)
}

/// The protocols offered by ALPN: each once, and at least one.
struct Protocols;

impl Kind<Vec<HttpVersion>> for Protocols {
    fn take(
        &self,
        reader: &mut Reader<'_>,
        field: &str,
        _: &Judge<'_, Vec<HttpVersion>>,
    ) -> Option<Vec<HttpVersion>> {
        let items = reader.take_list(field)?;
        let mut protocols = Vec::new();
        for item in &items {
            let read = item.read(|value| choice(value, HttpVersion::NAMES), "");
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
            let told = "found an empty list, expected \"h2\", \"http/1.1\" or both".to_owned();
            reader.add_mistake_near(field, told);
        }
        Some(protocols)
    }

    fn show(&self, protocols: &Vec<HttpVersion>) -> Option<String> {
        let names: Vec<_> = protocols
            .iter()
            .map(|protocol| quote(protocol.as_str()))
            .collect();
        Some(format!("[{}]", names.join(", ")))
    }

    fn meaning(&self, _: &Judge<'_, Vec<HttpVersion>>) -> Meaning {
        Meaning::of(
            "a list of `\"h2\"`, `\"http/1.1\"`",
            json!({"type": "array", "items": {"enum": ["h2", "http/1.1"]}, "minItems": 1}),
        )
    }
}

keys! { ClientTls in "replica.tls" {
    /// PEM: the authorities that must have issued replicas' certificates.
    ca: FILE, "the system's authorities";
    /// The name that certificates must have, also sent as SNI.
    server_name at server_name: Maybe(SERVER_NAME), "each replica's host, as it is written in `replicas`";
    /// PEM: the client certificate shown to replicas that ask. Needs `replica.tls.key`.
    certificate: FILE, "none";
    /// Its key, as `tls.certificates[].key`.
    key: FILE, "none";
    /// `"insecure"`: any certificate is accepted, and the log warns.
    verify at verify: Verify;
} }

/// Writes the section of replicas.
pub(super) fn write_replica_tls(to: &mut String, prefix: &str, tls: &ClientTls) {
    let mut by_hand = vec![("ca", tls.ca.as_deref().map(file_name))];
    let identity = tls.identity.iter().flat_map(identity_keys);
    by_hand.extend(identity.map(|(key, file)| (key, Some(file))));
    table::write_keys(
        to,
        &format!("{prefix}replica.tls"),
        table::shown_with(tls, &by_hand),
    );
}

/// Reads the section for replicas of the service that `prefix` names; `None` if it is missing or
/// wrong.
pub(super) fn read_replica_tls(
    reader: &mut Reader<'_>,
    prefix: &str,
    remarks: &mut Vec<Remark>,
) -> Option<ClientTls> {
    let section = &format!("{prefix}replica.tls");
    let is_there = reader.has_section(section);
    let key = |name: &str| format!("{section}.{name}");
    let ca_item = reader.take(&key("ca"));
    let tls: ClientTls = table::read(reader, prefix);
    let (name_definition, verify_definition) = (
        reader.definition(&key("server_name")),
        reader.definition(&key("verify")),
    );
    let ca = ca_item.as_ref().map(|item| read_ca(reader, item));
    let identity = read_identity(reader, section, remarks);
    if !is_there {
        return None;
    }
    let ca = match ca {
        Some(read) => Some(read?),
        None => None,
    };
    if tls.verify {
        if ca.is_none()
            && let Err(flaw) = system_roots()
        {
            reader.add_mistake_near(section, flaw.to_string());
        }
    } else if let Some(definition) = verify_definition {
        remarks.push(Remark {
            severity: Severity::Warning,
            about: definition.mistake(
                "replicas are not verified: an attacker in between can read and change everything",
            ),
        });
        for unused in [ca_item.map(|item| item.definition), name_definition] {
            remarks.extend(unused.map(|definition| Remark {
                severity: Severity::Note,
                about: definition.mistake("does not verify anything with verify = \"insecure\""),
            }));
        }
    }
    Some(ClientTls {
        ca,
        identity: identity.ok()?,
        ..tls
    })
}

/// The kind of `verify`: whether a replica's certificate is verified.
struct Verify;

impl Kind<bool> for Verify {
    fn read(&self, value: &DeValue<'_>) -> Result<bool, Unfit> {
        match value {
            DeValue::Boolean(true) => Ok(true),
            DeValue::String(word) if word == "insecure" => Ok(false),
            _ => Err(Unfit::Range),
        }
    }

    fn show(&self, value: &bool) -> Option<String> {
        Some(if *value {
            "true".to_owned()
        } else {
            quote("insecure")
        })
    }

    fn meaning(&self, _: &Judge<'_, bool>) -> Meaning {
        Meaning::of(
            "`true`, `\"insecure\"`",
            json!({"enum": [true, "insecure"]}),
        )
        .expected("true, or \"insecure\" if any certificate is acceptable")
    }
}

/// The name in a certificate.
pub(super) const SERVER_NAME: Written<ServerName<'static>> = Written {
    what: NAME_EXPECTED,
    expected: NAME_EXPECTED,
    parse: |name| ServerName::try_from(name.to_owned()).map_err(|_| Unfit::Range),
    text: |name| name.to_str().into_owned(),
};

const NAME_EXPECTED: &str = "a host name such as \"replica.internal\", or an address";
