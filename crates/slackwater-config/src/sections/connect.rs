//! The keys `connect` and `routes[].connect`: what becomes of CONNECT, by which a client asks for a tunnel.

use super::table::Choice;
pub use crate::routes::Connect;

/// What the keys may say.
pub(super) const CONNECT: Choice<Connect> =
    Choice(&[("refuse", Connect::Refuse), ("pass", Connect::Pass)]);
