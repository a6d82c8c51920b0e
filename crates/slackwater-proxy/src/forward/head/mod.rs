//! Heads of messages: which fields may pass between client and replica, and what they say about a
//! request's origin.
//!
//! This module sees no sockets and no bodies.
//!
//! | | file |
//! |---|---|
//! | a head as a whole: what is removed, rejected, added | `hygiene`; `fields`, `refusal` |
//! | the target of a request; `Max-Forwards`, `Via` | `target`; `max_forwards`, `via` |
//! | origin of a connection, as replicas see it | `origin`, `forwarded`, `client_cert` |
//! | the field that marks the proxy's own answers | `error_field` |

pub(crate) mod client_cert;
pub(crate) mod error_field;
mod fields;
mod forwarded;
pub(crate) mod hygiene;
mod max_forwards;
mod origin;
mod refusal;
mod target;
mod via;

pub(crate) use origin::{Cut, forwards_ends};
pub use origin::{Origin, Rules};
pub(crate) use refusal::{Refusal, not_implemented};
