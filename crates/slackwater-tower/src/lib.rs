//! Clients that balance and servers that report their load, as tower layers.
//!
#![doc = include_str!("../README.md")]
//!
//! # Time
//!
//! The core takes `now` as an argument; a [`Clock`](clock::Clock) reads it. It follows tokio's
//! paused time, so tests of services behind these layers need not sleep.

pub mod client;
pub mod clock;
mod datagrams;
pub mod response;
pub mod server;
mod watched_body;
pub mod wire;

#[doc(no_inline)]
pub use slackwater_core::{
    Draw, Instant, LoadReport, LoadScale, NoDraw, Quantile, Rate, ReplicaId, ReplicaIds, Rif,
    SplitMix64, default_policy, health, keys, overload, policy, report, tail, tracker,
};
