//! The keys `connect` and `routes[].connect`: what happens to CONNECT, with which a client requests
//! a tunnel.

pub use crate::routes::Connect;
use crate::table::Choice;

/// The values of the keys.
pub(super) const CONNECT: Choice<Connect> =
    Choice(&[("refuse", Connect::Refuse), ("pass", Connect::Pass)]);
