//! What requests are called: which field carries the id, whose is taken, and who is told.

use crate::table::{Boolean, Maybe, Written, settings};
use crate::toml_reader::values::Unfit;
use http::HeaderName;
use http::header;

settings! {
    /// What requests are called.
    pub struct RequestIdSettings in "request_id" {
        /// Header of the request's id, such as `"x-request-id"`. A request without one gets 32
        /// hexadecimal digits. Replicas receive it.
        header: Option<HeaderName> = None, Maybe(LOGGED_FIELD), "", fixed;
        /// Keeps the id of a request that brings one of 1 to 128 printable characters. `false`:
        /// every request gets a new id.
        accept: bool = true, Boolean, fixed;
        /// Adds the id to the response.
        to_client: bool = false, Boolean, fixed;
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

/// The name of a field that may be shown to whoever reads the log.
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
