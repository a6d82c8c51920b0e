//! Protocols that a client's HTTP/1.1 connection may change to: the keys `connect` and
//! `upgrade_protocols`.

use super::connect::{CONNECT, Connect};
use super::idle::is_other;
use super::kinds::is_token;
use crate::table::{Many, Written, settings};
use crate::toml_reader::values::Unfit;
use crate::toml_reader::{Reader, Remark, Severity};
use http::HeaderValue;

settings! {
    /// The top-level keys that both `serve` and `agent` have.
    pub(super) struct BeyondRequests in "" {
        /// What happens to [CONNECT](serve.md#tunnels) requests: 501, or they are passed to a
        /// replica.
        connect: Connect = Connect::Refuse, CONNECT;
        /// Protocols for which `Upgrade` of an HTTP/1.1 client is passed on. Other names are
        /// dropped. HTTP/2 replicas: 501. `h2c`, HTTP and TLS are refused.
        upgrade_protocols: Vec<HeaderValue> = vec![HeaderValue::from_static("websocket")], UPGRADES;
    }
}

/// The values of the key.
const UPGRADES: Many<Written<HeaderValue>> = Many {
    of: Written {
        what: EXPECTED,
        expected: EXPECTED,
        parse: read_protocol,
        text: |name| String::from_utf8_lossy(name.as_bytes()).into_owned(),
    },
    max: 16,
    what: "protocols",
};

const EXPECTED: &str = "the name of a protocol such as \"websocket\"";

/// Warns about a list that is not the default although `whose` replicas speak HTTP/2, which
/// supports none of the protocols.
pub(super) fn remark_upgrades(
    reader: &mut Reader<'_>,
    settings: &BeyondRequests,
    whose: Option<&str>,
) -> Option<Remark> {
    let whose = whose.filter(|_| is_other(settings, "upgrade_protocols"));
    let items = reader.take_list("upgrade_protocols")?;
    let (item, whose) = items.first().zip(whose)?;
    Some(Remark {
        severity: Severity::Warning,
        about: item.mistake(format!(
            "does nothing for {whose} HTTP/2: a request for it is answered with 501 there"
        )),
    })
}

fn read_protocol(name: &str) -> Result<HeaderValue, Unfit> {
    // Requests within such a connection would bypass all rules.
    let base = name.split('/').next().unwrap_or_default();
    if ["h2c", "http", "tls"].contains(&base.to_ascii_lowercase().as_str()) {
        return Err(Unfit::Other(format!(
            "found {name:?}: requests would go on unseen in it; expected another protocol, such as \"websocket\""
        )));
    }
    // RFC 9110 §7.8: a token, optionally with a version after a slash.
    let mut parts = name.splitn(2, '/');
    let is_name = parts.all(|part| !part.is_empty() && part.bytes().all(is_token));
    let value = HeaderValue::from_str(name).ok();
    value.filter(|_| is_name).ok_or(Unfit::Range)
}
