//! `slackwater serve` from outside: the real binary, real sockets, replicas and clients that behave
//! well or badly.
//!
//! Replicas are scripted byte by byte if it matters how they fail, and are hyper servers if they
//! speak HTTP/2. Each wait is for a condition and fails after [`proxy::PATIENCE`].

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[expect(dead_code, reason = "shared with the tests of hostile input")]
#[path = "../hostile/frames.rs"]
mod frames;

mod access_log;
mod aversion;
mod capacity;
mod clients;
mod connect;
mod control;
mod cpu;
mod decisions;
mod early;
mod endings;
mod failures;
mod grpc;
mod health;
mod hedge;
mod http1;
mod interim;
mod isolation;
mod keys;
mod kubernetes;
mod latency;
mod lifecycle;
mod live;
mod logging;
mod members;
mod memory;
mod metrics;
mod moves;
mod openapi;
mod orca;
mod outage;
mod probed;
mod progress;
mod proxy;
mod proxy_protocol;
mod queue;
mod recompute;
mod recording;
mod reload;
mod replicas;
mod requests;
mod resets;
mod retries;
mod room;
mod route_bounds;
mod routes;
mod shadow_trials;
mod shed;
mod silence;
mod standings;
mod sticky;
mod stopping;
mod stories;
mod streaming;
mod systemd;
mod ties;
mod tls;
mod tracing;
mod trailers;
mod tunnels;
mod upgrade;
mod withdrawn;
mod xds;
mod zones;
