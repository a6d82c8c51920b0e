//! HTTP/2 on the wire, without I/O: a connection as a value that is fed octets and gathers octets.
//! RFC 9113, RFC 7541
//!
//! One [`Connection`] for both roles. Whoever owns the socket gives it what was read
//! ([`Connection::receive`]) and writes what has gathered ([`Connection::out`]); whoever owns a
//! stream reads and writes it by its key, and is woken when it may go on. A stream keeps at most
//! what its window lets come, and nothing of what is to be sent: it puts frames where they are
//! written from when there is room for them, and waits for its turn when there is none.
//!
//! Nothing that the other side sends is kept without a bound: heads, streams, data by windows,
//! answers that it does not take (whoever reads stops), and what it does wrong on streams is
//! counted until the connection ends.
//!
//! | | file |
//! |---|---|
//! | frames, settings, windows | `frame`, `settings`, `window` |
//! | heads and trailers; their compression | `head`, `hpack` |
//! | the connection and its streams | `connection`, `streams`, `stream`, `inbox` |
//! | frames that come | `receive`, `fields`, `control` |
//! | what is sent | `send`, `out` |
//! | why it ends | `reason` |

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
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod window;

pub use connection::{Config, Connection, Role};
pub use head::{HeadLimits, RequestHead, ResponseHead};
pub use reason::{Ended, Lost, Reason};
pub use stream::Piece;
pub use streams::Key;
