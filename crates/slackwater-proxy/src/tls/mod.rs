//! TLS: handshakes on both sides, and certificates and keys that follow their files.
//!
//! Certificates and keys are a value, read again whenever their files change and swapped between
//! handshakes. An invalid new value is logged and leaves the old one in force. None of this is on a
//! request's path: a connection pays for its handshake, and is a stream of bytes from then on.
//!
//! | | file |
//! |---|---|
//! | handshakes with replicas | `connector`, `spoken` |
//! | HTTP probes | `probes` |
//! | one listener's handshakes: limit, counts | `handshake` |
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
pub(crate) use handshake::{NotSecured, refuse_plain};
pub use live::Secrets;
pub(crate) use probes::ProbeConnector;
pub use watch::{Turn, Watcher};
