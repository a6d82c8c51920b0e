//! Slackwater's configuration: text in, valid types out.
//!
//! A file of TOML, flags and environment variables become a [`Config`] or an [`AgentConfig`], or a
//! list of mistakes, each with its place, what was found and what was expected. What is suspicious
//! but valid comes back as a [`Remark`](toml_reader::Remark).
//!
//! | | module |
//! |---|---|
//! | sections and keys | [`sections`] |
//! | TOML read key by key: every mistake with its line | [`toml_reader`] |
//! | which requests are meant, and what becomes of them | [`routes`] |
//! | certificates, keys and authorities | [`tls`] |
//!
//! Host names are resolved and files are read while a configuration is loaded; after that it is a
//! value. Absent on purpose: sockets, tasks, and anything that follows a file or a name when it
//! changes.

#![forbid(unsafe_code)]

mod fault;
pub mod routes;
pub mod sections;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tls;
pub mod toml_reader;

pub use fault::Fault;
pub use sections::*;
