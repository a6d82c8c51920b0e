//! Why a request is not forwarded.

use http::StatusCode;

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(crate) status: StatusCode,
    /// Text for the client; lower case, no trailing full stop.
    pub(crate) reason: &'static str,
}

pub(super) const fn bad_request(reason: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::BAD_REQUEST,
        reason,
    }
}

pub(crate) const fn not_implemented(reason: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::NOT_IMPLEMENTED,
        reason,
    }
}
