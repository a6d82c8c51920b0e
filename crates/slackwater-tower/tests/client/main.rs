//! The client's side: real sockets on loopback where sockets are the subject, paused time
//! elsewhere.
//!
//! No test relies on a sleep: they wait for a condition, and fail after the limit in `common`.

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
mod late;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod udp;
mod weights;
mod zones;
