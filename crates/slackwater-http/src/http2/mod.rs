//! HTTP/2 on the wire, without I/O: a connection as a value that takes octets and produces octets.
//! RFC 9113, RFC 7541
//!
//! There is one [`Connection`] type for both roles. The socket's owner passes what was read
//! ([`Connection::receive`]) and writes the output ([`Connection::out`]). A stream's owner reads
//! and writes it by its key, and is woken when it can continue. A stream buffers at most one window
//! of incoming data, and no outgoing data. It puts frames directly into the output when there is
//! room, and waits for its turn otherwise.
//!
//! Everything that the peer sends is bounded: heads, the number of streams, data by windows, and
//! answers that it does not read (the owner of the socket stops reading). Its errors on streams are
//! counted until the connection ends.
//!
//! | | file |
//! |---|---|
//! | frames, settings, windows | `frame`, `settings`, `window` |
//! | heads and trailers; their compression | `head`, `hpack` |
//! | the connection and its streams | `connection`, `streams`, `stream`, `inbox` |
//! | received frames | `receive`, `fields`, `control` |
//! | what is sent | `send`, `out` |
//! | reasons of its end | `reason` |

mod connection;
mod control;
mod fields;
mod frame;
pub mod head;
mod hpack;
mod inbox;
mod out;
mod reason;
mod receive;
mod send;
mod settings;
mod stock;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod window;

pub use connection::{Config, Connection, Role};
pub use head::{HeadLimits, RequestHead, ResponseHead};
pub use reason::{Ended, Lost, Reason};
pub use stock::Stock;
pub use stream::Piece;
pub use streams::Key;
