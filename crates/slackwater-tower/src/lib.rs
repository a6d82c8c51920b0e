//! The core among sockets.

pub mod clock;
pub mod wire;
