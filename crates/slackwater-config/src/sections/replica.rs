//! `[replica]`: protocol and connections to replicas.

use super::tls::{read_replica_tls, write_replica_tls};
use crate::table::{self, Choice, Described, Number, Or, Within, choice, settings};
use crate::tls::{ClientTls, HttpVersion};
use crate::toml_reader::values::quote;
use crate::toml_reader::{Reader, Remark};
use slackwater_http::proxy_protocol::Version;

settings! {
    /// Protocol and connections to replicas.
    pub struct ReplicaSettings in "replica" first {
        /// HTTP/1.1, with or without TLS; HTTP/2 without TLS (prior knowledge); or HTTP/2 over TLS,
        /// which needs `[replica.tls]`.
        protocol: Described("`\"http1\"`, `\"h2c\"`, `\"h2\"`", r#"{"enum": ["http1", "h2c", "h2"]}"#), "`\"http1\"`";
    } fields {
        /// Idle connections that each worker keeps to each replica. 0: every request opens its own.
        /// HTTP/1.1 only.
        idle_connections_max: u32 = 64, Within(Number, 0..=65_536);
        /// [Connections to each replica](../how-to/limits.md#connections-to-a-replica) over
        /// all workers; each worker has its share, at least 1. Over HTTP/1.1 this limits the
        /// requests in flight.
        connections_max: Option<u32> = None, Or("none", Within(Number, 1..=65_536));
        /// Begins each connection to a replica with a [PROXY header](serve.md#the-proxy-protocol)
        /// of this version. Only with `"http1"`; not before an agent.
        proxy_protocol: Option<Version> = None, Choice(&VERSIONS);
    } also {
        /// The protocol of every replica.
        protocol: ReplicaProtocol = ReplicaProtocol::Http1;
        /// TLS to replicas; `None`: no TLS.
        tls: Option<ClientTls> = None;
    }
}

const VERSIONS: [(&str, Option<Version>); 3] = [
    ("off", None),
    ("v1", Some(Version::One)),
    ("v2", Some(Version::Two)),
];

/// The protocol of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by prior knowledge without TLS, by ALPN with TLS.
    H2c,
}

impl ReplicaProtocol {
    /// Its name in the configuration.
    pub const fn as_str(self, has_tls: bool) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::H2c if has_tls => "h2",
            Self::H2c => "h2c",
        }
    }

    /// The protocol to offer by ALPN.
    pub const fn alpn(self) -> HttpVersion {
        match self {
            Self::Http1 => HttpVersion::Http1,
            Self::H2c => HttpVersion::Http2,
        }
    }
}

impl ReplicaSettings {
    /// The key that an agent has, too.
    pub(super) const OF_AGENT: &str = "idle_connections_max";

    /// Writes the section, with `key` beside its own, and its TLS section. Keys that an agent does
    /// not have are written only if they differ from the default.
    pub(super) fn write(
        &self,
        to: &mut String,
        prefix: &str,
        beside: Option<(&'static str, String)>,
    ) {
        let protocol = quote(self.protocol.as_str(self.tls.is_some()));
        let mut keys = table::shown_with(self, &[("protocol", Some(protocol))]);
        keys.retain(|(name, _)| match *name {
            "connections_max" => self.connections_max.is_some(),
            "proxy_protocol" => self.proxy_protocol.is_some(),
            _ => true,
        });
        table::write_keys(
            to,
            &format!("{prefix}replica"),
            keys.into_iter().chain(beside),
        );
        if let Some(tls) = &self.tls {
            write_replica_tls(to, prefix, tls);
        }
    }
}

/// Reads the section of the service that `prefix` names; `is_meant` selects its keys.
pub(super) fn read_replica_settings(
    reader: &mut Reader<'_>,
    prefix: &str,
    is_meant: impl Fn(&str) -> bool,
    remarks: &mut Vec<Remark>,
) -> ReplicaSettings {
    // HTTP/2 over TLS has its own name, so that TLS cannot be left out by mistake.
    const NAMES: [(&str, (ReplicaProtocol, Option<bool>)); 3] = [
        ("http1", (ReplicaProtocol::Http1, None)),
        ("h2c", (ReplicaProtocol::H2c, Some(false))),
        ("h2", (ReplicaProtocol::H2c, Some(true))),
    ];
    let key = |name| format!("{prefix}replica.{name}");
    let protocol = reader.setting(&key("protocol"), NAMES[0].1, "", |value| {
        choice(value, &NAMES)
    });
    let has_tls = reader.has_section(&key("tls"));
    if let ((_, Some(wants_tls)), Some(definition)) = (protocol.value, protocol.definition)
        && wants_tls != has_tls
    {
        let section = key("tls");
        reader.add_mistake(definition.mistake(if wants_tls {
            format!("found \"h2\", HTTP/2 over TLS, without a section [{section}]; expected that, or \"h2c\"")
        } else {
            format!("found \"h2c\", HTTP/2 without TLS, beside a section [{section}]; expected \"h2\"")
        }));
    }
    let mut settings = ReplicaSettings::default();
    table::read_keys(reader, prefix, &mut settings, is_meant);
    ReplicaSettings {
        protocol: protocol.value.0,
        tls: read_replica_tls(reader, prefix, remarks),
        ..settings
    }
}
