//! What the admin server answers, described for programs: `OpenAPI` 3.1.
//!
//! The document is made from one table of paths (`table`) and from the very types that are sent and
//! read (`document`), so that neither can say something else; the admin server serves the file, as
//! it was made last. Another test asks running processes whether each path is served as described,
//! and whether each that is served is described.
//!
//!     UPDATE=1 cargo test -p slackwater --bin slackwater openapi
//!
//! writes it anew.

mod document;
mod page;
mod table;
