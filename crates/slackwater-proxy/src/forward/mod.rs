//! HTTP forwarding: the path of a request from a client's connection to a replica's and back, for
//! `serve` and `agent`.
//!
//! All of this belongs to one worker thread and is shared within it by `Rc`: no lock and no atomic
//! is on a request's path. The replica for a request is picked elsewhere, by the [`Handler`] of the
//! sub-command.
//!
//! Each folder uses only folders above it in this table:
//!
//! | folder | content |
//! |---|---|
//! | `wire` | the bytes of a connection: sockets, buffers, writers, HTTP/2 streams |
//! | `time` | deadlines, and the time limits of one attempt |
//! | `counts` | counters: how requests and connections ended, for the admin server |
//! | `head` | which fields are forwarded, and the origin of a request |
//! | `session` | a client's connection, shared by its requests |
//! | `request` | a request's body on its way to a replica, and its replay buffer |
//! | `replica` | connections to a replica, and one exchange on one of them |
//! | `response` | a response's body on its way to a client |
//! | `exchange` | one request at one replica: the connection, the response head, the failure |
//! | `answer` | the proxy's own answers, sent when there is no response to forward |
//! | `client` | listeners, and clients' connections from their first byte to their last |

mod answer;
mod client;
mod counts;
mod exchange;
mod head;
mod replica;
mod request;
mod response;
mod session;
mod time;
mod wire;

pub use answer::{answer, convert_to_grpc, is_grpc_call, refuse, turned_away};
pub(crate) use answer::{no_route, own_response, replicas_full, shed, too_large, too_late};
pub use client::{AcceptLoop, BoundListener, Handler, advice_on_port, listen};
pub use counts::{
    ConnectionCounts, ReplicaCounts, ReplicaEnds, UnreadableCounts, unreadable_requests,
};
pub(crate) use counts::{Count, Level, Moment};
pub use exchange::{Cause, Failure, Replica, Reply};
pub(crate) use head::error_field::X_SLACKWATER_ERROR;
pub(crate) use head::{Cut, Refusal, forwards_ends};
pub use head::{Origin, Rules};
pub use replica::{ReplicaOptions, Target, reach};
pub(crate) use replica::{connect, is_own_lack};
pub(crate) use request::{BodyCopy, Progress, RequestTemplate};
pub use request::{RequestBody, prepare_request};
pub use response::{Answer, End, ResponseBody, Watch};
pub(crate) use response::{COPY_BYTES_MAX, COPY_TIME_MAX, drain, drain_up_to};
pub use session::{ClientSettings, Clients, Phase};
pub use time::{AttemptTimeouts, Deadlines, LogInterval};
pub use wire::Memory;
pub(crate) use wire::Stream;
