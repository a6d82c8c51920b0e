//! The client's side, with real sockets on loopback where sockets are the subject and paused time elsewhere.
//!
//! Nothing here sleeps for luck: tests wait for a condition, and fail by the limit in `common`.

mod balance;
mod balancer;
mod common;
mod http;
mod sync;
mod udp;
