//! Picks the replica for the next request, decided as a value.
//!
#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod draw;
pub mod fixed;
pub mod health;
pub mod key;
pub mod keys;
mod logarithm;
mod named;
pub mod overload;
pub mod policy;
pub mod replica;
pub mod report;
pub mod subset;
pub mod tail;
pub mod time;
pub mod tracker;

pub use draw::{Draw, NoDraw, SplitMix64};
pub use fixed::{Quantile, Rate};
pub use health::default_policy;
pub use replica::{ReplicaId, ReplicaIds};
pub use report::{LoadReport, LoadScale, Rif};
pub use time::Instant;
