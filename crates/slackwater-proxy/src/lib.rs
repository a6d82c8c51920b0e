//! The data plane of Slackwater as a library: it accepts HTTP/1.1 and HTTP/2, and forwards requests
//! to the replica with the most free capacity.
//!
//! [`Proxy`] is what `slackwater serve` runs, without the process around it: no command line, no
//! signals, no admin server, no log. It starts one thread for each worker, and workers share
//! nothing that a request touches.
//!
//! ```no_run
//! # async fn embedded() -> Result<(), slackwater_config::Fault> {
//! use slackwater_config::Config;
//! use slackwater_proxy::{OpenedAnew, Outside, Proxy, find};
//!
//! let text = r#"
//!     listen = "127.0.0.1:8080"
//!     replicas = ["127.0.0.1:9001", "127.0.0.1:9002"]
//! "#.to_owned();
//! let config = Config::of_text("embedded", text)?;
//! let fleets = find(&config).await?;
//! let mut proxy = Proxy::start(&config, fleets, Outside::default(), &mut OpenedAnew)?;
//! // …
//! proxy.drain();
//! proxy.ended().await
//! # }
//! ```
//!
//! A program can also use [`Proxy::reload`] to change the configuration while requests run,
//! [`Proxy::status`] to read all counters, [`Outside`] to set where requests are logged
//! ([`access_log`], [`traces`], [`record`]), and [`decisions`] to find out why replicas were
//! picked. [`forward`] and [`tls`] are its building blocks, also for a proxy in front of a single
//! server, such as `slackwater agent`.
//!
//! **Absent on purpose**: a runtime of many threads (each worker has its own), middleware,
//! plug-ins.

pub mod access_log;
pub mod decisions;
pub mod forward;
mod health;
mod hex;
pub mod orca;
pub mod record;
pub mod request_record;
mod routing;
mod sampling;
mod seed;
mod service;
mod serving;
mod spans;
pub mod tls;
pub mod traces;
pub mod watchdog;
pub mod worker_threads;

pub use service::orders;
pub use serving::{
    OpenSockets, OpenedAnew, Outside, Proxy, Reloaded, ServiceParts, Workers, find, first_answers,
    lists,
};
