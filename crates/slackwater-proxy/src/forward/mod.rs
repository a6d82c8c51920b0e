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

mod accept;
mod answer;
mod body;
mod budget;
mod buffers;
mod client;
mod client_cert;
mod client_http1;
mod client_http2;
mod connect;
mod connection_ends;
mod counts;
mod date;
mod deadline;
mod exchange;
mod failure;
mod forwarded;
mod grpc_answer;
mod http2_body;
mod http2_wire;
mod hygiene;
mod inbound;
mod listen;
mod liveness;
mod max_forwards;
mod multiplex;
mod origin;
mod out;
mod patience;
mod pool;
mod proxy_header;
mod repeat;
mod replica_http1;
mod replica_http2;
mod request_body;
mod resets;
mod rest;
mod sender;
mod session;
mod spare;
mod stream;
mod tape;
mod target;
mod tunnel;
mod turn;
mod twin;
mod unreadable;
mod via;

pub use accept::{Intake, Listening};
pub(crate) use answer::{
    X_SLACKWATER_ERROR, no_route, own_response, replicas_full, shed, too_large, too_late,
};
pub use answer::{answer, refuse, turned_away};
pub use body::{End, ResponseBody, Watch};
pub use budget::Memory;
pub use client::{ClientSettings, Clients, Handler, Phase};
pub(crate) use connect::connect;
pub use connect::{Target, reach};
pub use connection_ends::ReplicaEnds;
pub use counts::{ConnectionCounts, ReplicaCounts};
pub(crate) use counts::{Count, Level, Moment};
pub use deadline::Deadlines;
pub use exchange::{Replica, ReplicaOptions, Reply};
pub use failure::{Cause, Failure};
pub use grpc_answer::{is_grpc_call, say_in_grpc};
pub(crate) use hygiene::Refusal;
pub use hygiene::prepare_request;
pub use listen::{advice_on_port, listen};
pub(crate) use origin::tells_ends;
pub use origin::{Origin, Rules};
pub use patience::Patience;
pub use request_body::RequestBody;
pub(crate) use request_body::{BodyCopy, Progress};
pub(crate) use rest::{COPY_BYTES_MAX, COPY_TIME_MAX, read_out, read_rest};
pub(crate) use session::Cut;
pub(crate) use stream::Stream;
pub(crate) use twin::Twin;

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
pub use unreadable::{UnreadableCounts, unreadable_requests};
