//! The admin server's interface, described for programs: `OpenAPI` 3.1.
//!
//! The document is made from one table of paths (`table`) and from the same types that are sent and
//! received (`document`), so it cannot contradict them. The admin server serves the file as it was
//! last made. Another test checks on running processes that each path is served as described, and
//! that each served path is described.
//!
//!     BLESS=1 cargo test -p slackwater --bin slackwater openapi
//!
//! makes it again.

mod document;
mod page;
mod table;
