//! The description of the admin server for programs: `OpenAPI` 3.1 at `/openapi.json`, and in
//! `docs/reference/openapi.json`.
//!
//! Tests of the command, which has all paths, generate the document from the types that are sent
//! and received. The server delivers the file from the last generation.

/// The document.
pub const DOCUMENT: &str = include_str!("openapi.json");
