//! The bytes of a connection to a client or to a replica: input, output, and limits on how much of
//! either may wait in memory.
//!
//! | | file |
//! |---|---|
//! | the socket, plain or TLS | `stream` |
//! | HTTP/1.1: pending output, and an outgoing body | `out`, `sender` |
//! | HTTP/2: a connection's socket; reader and writer of a stream | `http2_wire`, `http2_body` |
//! | buffers, and limits on how much of bodies may wait in memory | `buffers`, `budget` |
//! | when a task yields to others | `turn` |

mod budget;
pub(crate) mod buffers;
mod http2_body;
mod http2_wire;
mod out;
mod sender;
mod stream;
pub(crate) mod turn;

pub use budget::Memory;
pub(crate) use budget::{Budget, Loan, WINDOW_FIRST_BYTES, WINDOW_MAX_BYTES, beyond_first};
pub(crate) use http2_body::{Incoming, Outgoing, StreamReader, StreamWriter, Unsent, owners};
pub(crate) use http2_wire::{Notes, SharedConnection, Wire};
pub(crate) use out::Out;
pub(crate) use sender::{BodySender, Fill, SendError};
pub(crate) use stream::Stream;
