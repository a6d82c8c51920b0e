//! gRPC's bootstrap file: the control plane's address, credentials, and the node (gRFC A27).
//!
//! The first server of `xds_servers` with a kind of credentials that is known counts: `insecure`
//! or `tls`, with files for certificates (gRFC A65). Further keys are
//! skipped, as gRPC does.

use crate::node::{Locality, Node};
use serde::Deserialize;
use std::path::PathBuf;

/// What the file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Bootstrap {
    /// The control plane as `host:port`.
    pub server: String,
    /// The credentials.
    pub credentials: Credentials,
    /// The client. Its program is left empty.
    pub node: Node,
}

/// How to connect to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Without TLS.
    Insecure,
    /// With TLS.
    Tls {
        /// The trusted authorities, in PEM; `None`: those of the system.
        ca: Option<PathBuf>,
        /// The client's certificate and its key, in PEM.
        identity: Option<(PathBuf, PathBuf)>,
    },
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// It is not JSON, or a field has another type than it must have.
    #[error("is not a bootstrap file of gRPC: {0}")]
    Json(#[from] serde_json::Error),
    /// No server can be used.
    #[error("has no entry of xds_servers with channel_creds of type \"insecure\" or \"tls\"")]
    NoServer,
    /// The address of the server has another form.
    #[error(
        "has the server_uri {0:?}, expected \"host:port\", \"dns:///host:port\" or \"dns:host:port\""
    )]
    Address(String),
    /// A certificate without its key, or the other way around.
    #[error("has one of certificate_file and private_key_file, expected both or neither")]
    Identity,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    xds_servers: Vec<Server>,
    #[serde(default)]
    node: FileNode,
}

#[derive(Deserialize)]
struct Server {
    server_uri: String,
    #[serde(default)]
    channel_creds: Vec<Channel>,
}

#[derive(Deserialize)]
struct Channel {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    config: ChannelConfig,
}

#[derive(Default, Deserialize)]
struct ChannelConfig {
    #[serde(rename = "ca_certificate_file")]
    ca: Option<PathBuf>,
    #[serde(rename = "certificate_file")]
    certificate: Option<PathBuf>,
    #[serde(rename = "private_key_file")]
    key: Option<PathBuf>,
}

#[derive(Default, Deserialize)]
struct FileNode {
    #[serde(default)]
    id: String,
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    locality: FileLocality,
    #[serde(default)]
    metadata: serde_json::Map<String, serde_json::Value>,
}

#[derive(Default, Deserialize)]
struct FileLocality {
    #[serde(default)]
    region: String,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    sub_zone: String,
}

impl Bootstrap {
    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// See [`BootstrapError`].
    pub fn parse(text: &str) -> Result<Self, BootstrapError> {
        let file: File = serde_json::from_str(text)?;
        let mut usable = file.xds_servers.into_iter().filter_map(|server| {
            let channels = server.channel_creds.into_iter();
            let mut known = channels.filter(|it| matches!(it.kind.as_str(), "insecure" | "tls"));
            Some((server.server_uri, known.next()?))
        });
        let (uri, channel) = usable.next().ok_or(BootstrapError::NoServer)?;
        let credentials = match channel.kind.as_str() {
            "insecure" => Credentials::Insecure,
            _ => channel.config.credentials()?,
        };
        let FileLocality {
            region,
            zone,
            sub_zone,
        } = file.node.locality;
        Ok(Self {
            server: address(&uri)?,
            credentials,
            node: Node {
                id: file.node.id,
                cluster: file.node.cluster,
                locality: Locality {
                    region,
                    zone,
                    sub_zone,
                },
                metadata: file.node.metadata,
                user_agent: Default::default(),
            },
        })
    }
}

impl ChannelConfig {
    fn credentials(self) -> Result<Credentials, BootstrapError> {
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(BootstrapError::Identity),
        };
        Ok(Credentials::Tls {
            ca: self.ca,
            identity,
        })
    }
}

/// Takes the scheme of gRPC's names off an address.
fn address(uri: &str) -> Result<String, BootstrapError> {
    let rest = uri.strip_prefix("dns:").unwrap_or(uri);
    let rest = rest.strip_prefix("///").unwrap_or(rest);
    let has_port = rest
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|it| it > 0));
    if has_port && !rest.contains('/') {
        return Ok(rest.to_owned());
    }
    Err(BootstrapError::Address(uri.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_grpc_is_read() {
        let text = r#"{
            "xds_servers": [
                {"server_uri": "td.example:443", "channel_creds": [{"type": "google_default"}]},
                {"server_uri": "dns:///xds.internal:18000", "server_features": ["xds_v3"],
                 "channel_creds": [{"type": "other"}, {"type": "tls", "config": {
                    "ca_certificate_file": "/ca.pem", "certificate_file": "/c.pem",
                    "private_key_file": "/k.pem", "refresh_interval": "600s"}}]}
            ],
            "node": {"id": "a", "cluster": "b", "locality": {"region": "r", "zone": "z"},
                     "metadata": {"ISTIO_VERSION": "1.30", "n": [1, null]}},
            "authorities": {}
        }"#;
        let read = Bootstrap::parse(text).expect("valid");
        assert_eq!(read.server, "xds.internal:18000");
        let identity = Some(("/c.pem".into(), "/k.pem".into()));
        let ca = Some("/ca.pem".into());
        assert_eq!(read.credentials, Credentials::Tls { ca, identity });
        assert_eq!(
            (read.node.id.as_str(), read.node.cluster.as_str()),
            ("a", "b")
        );
        assert_eq!(read.node.locality.zone, "z");
        let message = read.node.message();
        let metadata = message.metadata.expect("there");
        assert_eq!(metadata.fields.len(), 2);
        assert_eq!(message.locality.expect("there").region, "r");
    }

    #[test]
    fn mistakes_are_named() {
        let server = |uri: &str, kind: &str, config: &str| {
            format!(
                r#"{{"xds_servers": [{{"server_uri": "{uri}", "channel_creds": [{{"type": "{kind}", "config": {config}}}]}}]}}"#
            )
        };
        for (text, told) in [
            ("{", "is not a bootstrap file"),
            ("{}", "no entry of xds_servers"),
            (
                &server("a:1", "google_default", "{}"),
                "no entry of xds_servers",
            ),
            (
                &server("unix:/run/xds", "insecure", "{}"),
                "\"unix:/run/xds\"",
            ),
            (&server("host", "insecure", "{}"), "\"host\""),
            (&server("host:0", "insecure", "{}"), "\"host:0\""),
            (
                &server("a:1", "tls", r#"{"certificate_file": "/c"}"#),
                "expected both",
            ),
        ] {
            let why = Bootstrap::parse(text).expect_err("wrong").to_string();
            assert!(why.contains(told), "{why}");
        }
        let read = Bootstrap::parse(&server("[::1]:1", "insecure", "{}")).expect("valid");
        assert_eq!(read.server, "[::1]:1");
        assert_eq!(read.credentials, Credentials::Insecure);
    }
}
