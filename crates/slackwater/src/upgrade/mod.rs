//! Replaces the binary of a running process without losing a connection.
//!
//! The running process starts the new one and passes its listening sockets to it. A socket's queue
//! of connections belongs to the socket and not to a process, so a queued connection is served by
//! whichever process accepts first. Opening the port a second time would not be enough: connections
//! in a closed socket's queue are reset.
//!
//! | | file |
//! |---|---|
//! | the protocol between the two | `channel` |
//! | the old process's part | `predecessor`; its attempts, `attempt` |
//! | the new process's part | `successor` |
//! | sockets from outside: from a predecessor, or from systemd | `inherited` |
//!
//! The two processes may have different versions, configurations and numbers of workers. The old
//! one continues until the new one has reported that it serves. If that report does not come, the
//! old one still continues, and logs why.

mod attempt;
mod channel;
mod inherited;
mod predecessor;
mod successor;

pub(crate) use attempt::Upgrade;
pub(crate) use inherited::Inherited;
pub(crate) use predecessor::{Passed, Program};
