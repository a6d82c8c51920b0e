//! What the admin server answers, described for programs: `OpenAPI` 3.1 at `/openapi.json`, and in
//! `docs/reference/openapi.json`.
//!
//! The document is made by tests of the command, which knows all paths, from the very types that
//! are sent and read. What is served is the file, as it was made last.

/// The document.
pub const DOCUMENT: &str = include_str!("openapi.json");
