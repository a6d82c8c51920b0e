//! Which replica gets the next query, decided as a value.
//!
//! This crate is the part of Slackwater that decides. It holds the Prequal policy (Wydrowski,
//! Kleinberg, Rumble, Archer: "Load is not what you should balance: Introducing Prequal", NSDI
//! 2024), its neighbours, and the tracker by which a replica knows its own load. It reads no clock,
//! opens no socket, starts no thread and has no randomness of its own: `now` and random draws are
//! arguments. So the very same code runs in the proxy (real time), in the simulator (virtual time)
//! and in a test (time fed by hand), and the same inputs always give the same outputs.
//!
//! # The way of a query
//!
//! ```
//! use slackwater_core::policy::{Decision, Event, Outcome, Policy, Prequal, PrequalConfig, Query};
//! use slackwater_core::{Instant, LoadReport, ReplicaIds, Rif, SplitMix64};
//! use core::time::Duration;
//!
//! let mut draw = SplitMix64::new(7);
//! let mut ids = ReplicaIds::new();
//! let mut policy = Prequal::new(PrequalConfig::default());
//! let mut now = Instant::EPOCH;
//! for _ in 0..10 {
//!     policy.handle(now, Event::Added(ids.allocate().expect("far below the limit")), &mut draw);
//! }
//!
//! // A query comes in. The pick never waits; with an empty pool it falls back to a random replica.
//! let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) else {
//!     panic!("ten replicas are available");
//! };
//! println!("{} because {}", pick.ticket.replica(), pick.reason);
//!
//! // The pick asked for probes; the driver sends them off the query's path and hands the answers back.
//! while let Some(probe) = policy.poll_probe(now, &mut draw) {
//!     now += Duration::from_micros(200);
//!     let report = LoadReport::new(Rif::new(3), Some(Duration::from_millis(12)));
//!     policy.handle(now, Event::Report(probe.id, &report), &mut draw);
//! }
//!
//! // The query ends; whoever picked says so.
//! policy.handle_query_done(now, pick.ticket, Outcome::Success);
//! ```
//!
//! Whoever has no reason to name a policy takes [`DEFAULT_POLICY`](policy::DEFAULT_POLICY), which
//! is not this one.
//!
//! Call order: any method may follow any other. `now` should never step back; where it does, the
//! policy keeps the latest time it has seen. Every type here is `Send` and single-threaded, except
//! [`LoadTracker`](tracker::LoadTracker), which is shared between threads without a lock. Nothing
//! grows without bound.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod draw;
pub mod fixed;
pub mod health;
mod named;
pub mod overload;
pub mod policy;
pub mod replica;
pub mod report;
pub mod tail;
pub mod time;
pub mod tracker;

pub use health::default_policy;
pub use draw::{Draw, NoDraw, SplitMix64};
pub use fixed::{Quantile, Rate};
pub use replica::{ReplicaId, ReplicaIds};
pub use report::{LoadReport, LoadScale, Rif};
pub use time::Instant;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
