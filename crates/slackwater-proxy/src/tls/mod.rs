//! TLS at work: handshakes on both sides, and certificates and keys that follow their files.
//!
//! What is read from files is a value, made anew whenever they change and swapped between
//! handshakes; a new one that is bad is told and leaves the old one in force. Nothing here runs on
//! a request's way: a connection pays for its handshake, and from then on the stream is bytes.
//!
//! | | file |
//! |---|---|
//! | handshakes with replicas | `connector`, `spoken` |
//! | HTTP probes | `probes` |
//! | one listener's handshakes: deadline, bound, counts | `handshake` |
//! | values that follow their files | `live`, `watch` |

mod connector;
mod handshake;
mod live;
mod probes;
mod spoken;
mod watch;

pub use connector::Connector;
pub(crate) use connector::connect_once;
pub use handshake::{HandshakeCounts, Handshakes, Secured};
pub use live::Secrets;
pub(crate) use probes::ProbeConnector;
pub use watch::{Turn, Watcher};
