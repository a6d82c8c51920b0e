//! What requests are called: which field carries the id, whose is taken, and who is told.

use crate::table::{Boolean, Maybe, Written, settings};
use crate::toml_reader::values::Unfit;
use http::HeaderName;
use http::header;

settings! {
    /// What requests are called.
    pub struct RequestIdSettings in "request_id" {
        /// The field that carries the id, such as `"x-request-id"`: a request that brings one keeps
        /// it, if it is 1 to 128 printable characters; who brings none gets one, of 32 hexadecimal
        /// digits. Replicas have it in that field. Fields that hold secrets are refused.
        header: Option<HeaderName> = None, Maybe(LOGGED_FIELD), "", fixed;
        /// Whether an id that a request brings is taken. `false`: each gets a new one, as a client
        /// may send any, and the same one again and again.
        accept: bool = true, Boolean, fixed;
        /// Whether the response has it, too.
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
