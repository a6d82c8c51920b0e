//! What the admin server answers, described for programs: `OpenAPI` 3.1 at `/openapi.json`, and in `docs/openapi.json`.
//!
//! The document is made by the tests, from one table of paths (`table`) and from the very types that are sent and read, so that
//! neither can say something else; what is served is the file, as it was made last. Another test asks running processes whether
//! each path is served as described, and whether each that is served is described.
//!
//!     UPDATE=1 cargo test -p slackwater --bin slackwater openapi
//!
//! writes it anew.

#[cfg(test)]
mod document;
#[cfg(test)]
mod table;

/// The document.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");
