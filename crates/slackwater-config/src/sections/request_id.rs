//! `[request_id]`: the header that carries a request's id, whether a client's id is accepted, and
//! whether the response carries it.

use super::idle::{idle_keys, is_other};
use crate::routes::why_untouchable;
use crate::table::{self, Boolean, Maybe, Written, settings};
use crate::toml_reader::values::Unfit;
use crate::toml_reader::{Reader, Remark};
use http::HeaderName;
use http::header;

settings! {
    /// The request id's header.
    pub struct RequestIdSettings in "request_id" {
        /// Header of the request's id, such as `"x-request-id"`. A request without one gets 32
        /// hexadecimal digits. Replicas receive it.
        header: Option<HeaderName> = None, Maybe(ID_FIELD), "", fixed;
        /// Keeps the id of a request that brings one of 1 to 128 printable characters. `false`:
        /// every request gets a new id.
        accept: bool = true, Boolean, fixed;
        /// Adds the id to the response.
        to_client: bool = false, Boolean, fixed;
    }
}

impl RequestIdSettings {
    /// Reads the section, with remarks.
    pub(super) fn read(reader: &mut Reader<'_>, remarks: &mut Vec<Remark>) -> Self {
        let settings: Self = table::read(reader, "");
        if settings.header.is_none() {
            let told = "only with request_id.header";
            let is_idle = |key: &str| is_other(&settings, key);
            remarks.extend(idle_keys::<Self>(reader, "", is_idle, told));
        }
        settings
    }
}

/// Headers that must not appear in a log.
const SECRETS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
    header::SET_COOKIE,
];

/// Returns whether a header's value must not appear in records of requests.
pub fn holds_secrets(name: &HeaderName) -> bool {
    SECRETS.contains(name)
}

/// The name of a header that a request's id may replace.
const ID_FIELD: Written<HeaderName> = Written {
    parse: |name| {
        let field = (LOGGED_FIELD.parse)(name)?;
        why_untouchable(&field).map_or(Ok(field), |why| {
            Err(Unfit::Other(format!(
                "found {name:?}, which cannot carry an id: {why}"
            )))
        })
    },
    ..LOGGED_FIELD
};

/// The name of a header whose value may appear in the log.
pub(super) const LOGGED_FIELD: Written<HeaderName> = Written {
    what: "the name of a field",
    expected: "the name of a field, such as \"x-request-id\"",
    parse: |name| match HeaderName::try_from(name) {
        Err(_) => Err(Unfit::Range),
        Ok(field) if holds_secrets(&field) => Err(Unfit::Other(format!(
            "found {name:?}, which holds secrets and is never logged"
        ))),
        Ok(field) => Ok(field),
    },
    text: HeaderName::to_string,
};
