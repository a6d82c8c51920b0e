//! Slackwater's configuration: text in, valid types out.
//!
//! Turns a TOML file, flags and environment variables into a [`Config`] or an [`AgentConfig`], or
//! into a list of mistakes. Each mistake has its place, what was found and what was expected.
//! Values that are valid but suspicious come back as a [`Remark`](toml_reader::Remark).
//!
//! | | module |
//! |---|---|
//! | sections and keys | [`sections`] |
//! | TOML read key by key: every mistake with its line | [`toml_reader`] |
//! | which requests are meant, and what becomes of them | [`routes`] |
//! | certificates, keys and authorities | [`tls`] |
//! | a cluster's API and the credentials for it | `cluster_access` |
//!
//! Host names are resolved and files are read while a configuration is loaded. After that it is a
//! plain value. This crate has no sockets, no tasks, and nothing that follows a file or a name when
//! it changes, on purpose.

#![forbid(unsafe_code)]

mod cluster_access;
mod fault;
pub mod routes;
pub mod sections;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tls;
pub mod toml_reader;

pub use cluster_access::ClusterAccess;
pub use fault::Fault;
pub use sections::*;
pub use slackwater_xds::FleetName;
