//! What requests are called: which field carries the id, whose is taken, and who is told.

use super::show::quoted;
use crate::toml_reader::Reader;
use crate::toml_reader::values::{Unfit, boolean, text};
use core::fmt::{self, Write};
use http::HeaderName;
use http::header;

/// `[request_id]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestIdSettings {
    /// The field that carries it from clients and to replicas; `None`, the default: no field does, and ids are drawn for
    /// logs alone.
    pub header: Option<HeaderName>,
    /// Whether an id that a request brings is taken; default yes. Else each request gets a new one.
    pub accept: bool,
    /// Whether the response carries it to the client; default no.
    pub to_client: bool,
}

impl Default for RequestIdSettings {
    fn default() -> Self {
        Self {
            header: None,
            accept: true,
            to_client: false,
        }
    }
}

/// Fields that nobody should find in a log.
const SECRETS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    header::SET_COOKIE,
];

/// Whether that field is one that nobody should find in what is written down of requests.
pub fn holds_secrets(name: &HeaderName) -> bool {
    SECRETS.contains(name)
}

/// Reads `[request_id]`.
pub(super) fn read_request_id(reader: &mut Reader<'_>) -> RequestIdSettings {
    let default = RequestIdSettings::default();
    let header = reader.setting("request_id.header", None, "", |value| {
        let name = text(value, "the name of a field")?;
        field_name(name).map(Some)
    });
    let accept = reader.setting("request_id.accept", default.accept, "", boolean);
    let to_client = reader.setting("request_id.to_client", default.to_client, "", boolean);
    RequestIdSettings {
        header: header.value,
        accept: accept.value,
        to_client: to_client.value,
    }
}

/// The name of a field that may be shown to whoever reads the log.
pub(super) fn field_name(name: &str) -> Result<HeaderName, Unfit> {
    let refuse = |why: &str| Err(Unfit::Other(format!("found {name:?}, {why}")));
    match HeaderName::try_from(name) {
        Err(_) => refuse("expected the name of a field, such as \"x-request-id\""),
        Ok(field) if holds_secrets(&field) => refuse("which holds secrets and is never logged"),
        Ok(field) => Ok(field),
    }
}

/// `[request_id]` as a file has it.
pub(super) fn write_request_id(to: &mut String, settings: &RequestIdSettings) -> fmt::Result {
    writeln!(to, "[request_id]")?;
    if let Some(name) = &settings.header {
        writeln!(to, "header = {}", quoted(name))?;
    }
    writeln!(to, "accept = {}", settings.accept)?;
    writeln!(to, "to_client = {}\n", settings.to_client)
}
