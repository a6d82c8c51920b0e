//! The core among sockets.

pub mod clock;
pub mod server;
pub mod wire;
