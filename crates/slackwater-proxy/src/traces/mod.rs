//! Distributed tracing: requests as spans of OpenTelemetry, and the context that ties them to
//! others' spans.
//!
//! Whether a request is sampled is decided when it comes, by what its client says or by a draw; one
//! that is not costs that decision and nothing else. A sampled one becomes spans at its end, on its
//! worker, which hands them over as bytes in a bounded queue. A thread of its own sends them to a
//! collector by OTLP, and drops and counts what it cannot send: no request ever waits for a
//! collector. What a request's record tells as spans is in `crate::spans`.
//!
//! | | file |
//! |---|---|
//! | W3C Trace Context: `traceparent`, `tracestate` | `context`, `state` |
//! | which requests are sampled, and ids | `tracer` |
//! | spans as OTLP has them on the wire | `messages` |
//! | from a worker to the thread | `queue` |
//! | the thread: batches, tries again, ends | `exporter` |
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
