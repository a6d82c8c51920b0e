//! The keys `connect` and `routes[].connect`: what becomes of CONNECT, by which a client asks for a
//! tunnel.

pub use crate::routes::Connect;
use crate::table::Choice;

/// What the keys may say.
pub(super) const CONNECT: Choice<Connect> =
    Choice(&[("refuse", Connect::Refuse), ("pass", Connect::Pass)]);
