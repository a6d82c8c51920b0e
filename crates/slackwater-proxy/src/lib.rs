//! The data plane of Slackwater as a library: HTTP/1.1 and HTTP/2 in, and out to the replica that
//! has room for it.
//!
//! [`Proxy`] is what `slackwater serve` runs, without a process around it: no command line, no
//! signals, no admin server, no log of its own. It has threads of its own, one for each worker,
//! which share nothing that a request touches.
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
//! What a program does with it besides: [`Proxy::reload`] goes over to another configuration while
//! requests run, [`Proxy::status`] has all that is counted, [`Outside`] takes where requests are
//! told of ([`access_log`], [`traces`], [`record`]), [`decisions`] says why replicas were picked.
//! [`forward`] and [`tls`] are what its connections are made of, for a proxy before a single
//! server, as `slackwater agent` is one.
//!
//! **Absent on purpose**: a runtime of many threads (each worker has its own), middleware,
//! plug-ins.

pub mod access_log;
pub mod decisions;
pub mod forward;
mod health;
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
    OpenSockets, OpenedAnew, Outside, Proxy, Reloaded, ServiceParts, Workers, find, lists,
};
