//! A replica's side: count queries, answer probes.
//!
//! [`Load`] is one replica's state and is shared by all that touch it. [`LoadLayer`] puts it around
//! an HTTP service: every request counts from the moment that the service is called to the last
//! byte of its response, and `GET /prequal/probe` is answered on the spot. [`respond_udp`] answers
//! probes over UDP, several times cheaper. A server that is no tower service calls [`Load::arrive`]
//! and [`respond_http`] itself. Sockets, listeners and shutdown stay the server's own.

pub mod admission;
mod body;
mod capacity;
mod counts;
mod ends;
mod layer;
mod load;
mod query;
mod udp;

pub use body::TrackedBody;
pub use counts::LoadCounts;
pub use ends::{end_by_head, end_by_trailers};
pub use layer::{BadProbePath, LoadFuture, LoadLayer, LoadService, respond_http};
pub use load::{Load, LoadBuilder};
pub use query::QueryInFlight;
pub use slackwater_core::tracker::{CapacitySource, CpuTotals, End, ThreadTotals, TrackerConfig};
pub use udp::{respond_udp, respond_udp_tied};
