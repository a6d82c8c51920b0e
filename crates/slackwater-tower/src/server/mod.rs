//! The replica's side: counts queries and answers probes.
//!
//! [`Load`] is one replica's state, shared by its handlers and responders. [`LoadLayer`] wraps an
//! HTTP service: every request counts from the call of the service to the last byte of its
//! response, and `GET /prequal/probe` is answered directly. [`respond_udp`] answers probes over
//! UDP, at a fraction of the cost. A server that is not a tower service calls [`Load::arrive`] and
//! [`respond_http`] itself. Sockets, listeners and shutdown remain the server's.

pub mod admission;
mod body;
mod capacity;
mod counts;
mod ends;
mod hints;
mod layer;
mod load;
mod query;
mod udp;

pub use body::TrackedBody;
pub use counts::LoadCounts;
pub use ends::{end_by_head, end_by_trailers};
pub use hints::{HintCache, HintCacheSettings, HintCounts};
pub use layer::{BadProbePath, LoadFuture, LoadLayer, LoadService, respond_http};
pub use load::{Load, LoadBuilder};
pub use query::QueryInFlight;
pub use slackwater_core::tracker::{CapacitySource, CpuTotals, End, ThreadTotals, TrackerConfig};
pub use udp::{respond_udp, respond_udp_tied};
