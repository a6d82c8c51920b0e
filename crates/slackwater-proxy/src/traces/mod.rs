//! Distributed tracing: requests as OpenTelemetry spans, and the context that links them to spans
//! of other processes.
//!
//! The sampling decision is made when a request arrives, by its parent's flag or by a random draw.
//! A request that is not sampled costs only that decision. A sampled one becomes spans at its end,
//! on its worker, which passes them on as bytes in a bounded queue. A separate thread sends them to
//! a collector with OTLP, and drops and counts what it cannot send: no request ever waits for a
//! collector. `crate::spans` converts request records to spans.
//!
//! | | file |
//! |---|---|
//! | W3C Trace Context: `traceparent`, `tracestate` | `context`, `state` |
//! | which requests are sampled, and ids | `tracer` |
//! | OTLP messages | `messages` |
//! | spans from a worker to the export thread | `queue` |
//! | the export thread: batches, retries, shutdown | `exporter` |
//! | one export: HTTP or gRPC, TLS | `transport`, `verdict` |

mod context;
mod exporter;
pub(crate) mod messages;
mod queue;
mod state;
mod tracer;
mod transport;
mod verdict;

pub use exporter::{Exporter, Switch};
pub(crate) use tracer::{Traced, Tracer};
