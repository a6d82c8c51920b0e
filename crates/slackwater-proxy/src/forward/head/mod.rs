//! What may pass from head to head, and what a head says of where its request comes from.
//!
//! [`hygiene`] is the entry: it takes out, refuses and adds, by means of the other files, one for each field or family of
//! fields. It reads and writes heads only; no socket and no body is seen here.

pub(crate) mod client_cert;
pub(crate) mod error_field;
mod forwarded;
pub(crate) mod hygiene;
mod max_forwards;
mod origin;
mod target;
mod via;

pub(crate) use hygiene::Refusal;
pub(crate) use origin::{Cut, forwards_ends};
pub use origin::{Origin, Rules};
