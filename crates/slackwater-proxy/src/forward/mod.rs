//! The way of a request through a proxy: from a client's connection to a replica's and back, for `serve` and `agent`.
//!
//! Everything here belongs to one worker thread and is shared within it by `Rc`: no lock and no atomic on a request's
//! path. Who gets the request is not decided here; the sub-command's [`Handler`] does that.
//!
//! | | file |
//! |---|---|
//! | sockets that listen, and taking connections from them | `listen`, `accept` |
//! | clients' connections: protocol, deadlines, graceful end | `client`, `session` |
//! | clients' HTTP/1.1 | `client_http1`, `inbound`, `date`; `tunnel` after an upgrade |
//! | clients' HTTP/2 | `client_http2` |
//! | what may pass from head to head | `hygiene`, `target`, `forwarded`, `via`, `max_forwards`, `client_cert` |
//! | where a connection comes from | `origin` |
//! | clients that take back what they ask for | `resets` |
//! | one request on one replica | `exchange`, `repeat`, `spare`, `tape`, `failure` |
//! | the bytes of a connection | `stream` |
//! | connections to a replica | `connect`; `pool`, `replica_http1`; `multiplex`, `replica_http2`, `liveness` |
//! | bodies, and what happens at their end; how much of responses may wait | `request_body`, `body`; `budget` |
//! | HTTP/2 on either side: a connection's socket, a stream's two owners | `http2_wire`, `http2_body` |
//! | what is written, and memory for what is read | `sender`, `out`, `buffers` |
//! | what a client is told when there is no response | `answer` |
//! | waits that end; turns that do | `deadline`, `patience`; `turn` |
//! | how requests ended, for the admin server; those that could not be read | `counts`, `unreadable` |

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

pub(crate) use answer::X_SLACKWATER_ERROR;
pub use answer::{answer, is_grpc_call, refuse, say_in_grpc, turned_away};
pub(crate) use answer::{no_route, own_response, replicas_full, shed, too_large, too_late};
pub use client::{
    ClientSettings, Clients, Handler, Intake, Listening, Phase, advice_on_port, listen,
};
pub use counts::{
    ConnectionCounts, ReplicaCounts, ReplicaEnds, UnreadableCounts, unreadable_requests,
};
pub(crate) use counts::{Count, Level, Moment};
pub use exchange::{Cause, Failure, Replica, ReplicaOptions, Reply};
pub(crate) use head::Refusal;
pub(crate) use head::tells_ends;
pub use head::{Origin, Rules, prepare_request};
pub(crate) use replica::connect;
pub use replica::{Target, reach};
pub use request::RequestBody;
pub(crate) use request::{BodyCopy, Progress, Twin};
pub(crate) use response::{COPY_BYTES_MAX, COPY_TIME_MAX, read_out, read_rest};
pub use response::{End, ResponseBody, Watch};
pub(crate) use session::Cut;
pub use time::{Deadlines, Patience};
pub use wire::Memory;
pub(crate) use wire::Stream;

/// Runs hyper's tasks on the worker's own thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future<Output: 'static> + 'static,
{
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
