//! The core among sockets.
