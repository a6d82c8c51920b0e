//! The core among sockets.

pub mod client;
pub mod clock;
pub mod server;
pub mod wire;
