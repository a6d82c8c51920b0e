//! A new binary in place of a running one, without a connection lost.
//!
//! The running process starts the new one and passes it the very sockets that it listens on: a
//! socket's queue of connections belongs to the socket and not to a process, so whoever waits in it
//! is served by whichever process accepts first. Opening the port a second time would not do: what
//! waits in a closed socket's queue is reset.
//!
//! | | file |
//! |---|---|
//! | what the two say to each other | `channel` |
//! | the old process's part | `predecessor`; one try after the other, `attempt` |
//! | the new process's part | `successor` |
//! | sockets that come from outside: from a predecessor, or from systemd | `inherited` |
//!
//! The two may be of different versions, with different configurations and numbers of workers.
//! Until the new one has said that it serves, the old one goes on; if that does not come, it still
//! goes on, and says why.

mod attempt;
mod channel;
mod inherited;
mod predecessor;
mod successor;

pub(crate) use attempt::Upgrade;
pub(crate) use inherited::Inherited;
pub(crate) use predecessor::{Passed, Program};
