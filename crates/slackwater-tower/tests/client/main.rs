//! The client's side, with real sockets on loopback where sockets are the subject and paused time
//! elsewhere.
//!
//! Nothing here sleeps for luck: tests wait for a condition, and fail by the limit in `common`.

#[cfg(test)]
mod balance;
#[cfg(test)]
mod balancer;
#[cfg(test)]
mod common;
#[cfg(test)]
mod fan_out;
#[cfg(test)]
mod http;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod udp;
mod weights;
