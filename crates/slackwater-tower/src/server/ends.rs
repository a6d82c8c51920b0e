//! How a query ended, according to its response.

use crate::response::{head_outcome, trailers_outcome};
use http::StatusCode;
use slackwater_core::policy::Outcome;
use slackwater_core::tracker::End;
use slackwater_http::FieldMap;

/// Returns how a query ends according to its response's head. It failed at a status of 500 or more,
/// or a gRPC status that blames the server: `UNKNOWN`, `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED`,
/// `UNIMPLEMENTED`, `INTERNAL`, `UNAVAILABLE`, `DATA_LOSS`. A pushback (429 or 503 with
/// `retry-after`, gRPC's with `grpc-retry-pushback-ms`) is load and no failure: the query ends as
/// cancelled, and its latency is no sample. Use it with
/// [`QueryInFlight::head_ready`](super::QueryInFlight::head_ready). [`LoadLayer`](super::LoadLayer)
/// applies it itself, also to a body's trailers.
pub fn end_by_head(status: StatusCode, headers: &impl FieldMap) -> End {
    end_of(head_outcome(status, headers))
}

/// As [`end_by_head`], for trailers.
pub fn end_by_trailers(trailers: &impl FieldMap) -> End {
    end_of(trailers_outcome(trailers, Outcome::Success))
}

const fn end_of(outcome: Outcome) -> End {
    match outcome {
        Outcome::Success => End::Success,
        Outcome::PushedBack => End::Cancelled,
        _ => End::Failed,
    }
}
