//! Connections to a replica: opened, kept and shared, and one exchange on such a connection in
//! either protocol.
//!
//! | | file |
//! |---|---|
//! | address of a replica, and a new connection to it | `connect` |
//! | options of its connections | `options` |
//! | HTTP/1.1: idle connections, one exchange | `pool`, `http1` |
//! | HTTP/2: shared connections, one exchange, liveness | `multiplex`, `http2`, `liveness` |

mod connect;
pub(crate) mod http1;
pub(crate) mod http2;
mod liveness;
pub(crate) mod multiplex;
mod options;
mod pool;

pub use connect::{Target, reach};
pub(crate) use connect::{connect, is_own_lack};
pub use options::ReplicaOptions;
pub(crate) use pool::Pool;
