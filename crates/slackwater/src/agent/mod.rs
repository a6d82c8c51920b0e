//! The sub-command `slackwater agent`: the sidecar before one replica whose server cannot be
//! changed.
//!
//! It forwards requests to that one server, counts them, and answers probes in its name. When the
//! server cannot be connected to, it withdraws: a dead server behind a live agent would otherwise
//! look idle and attract everything.
//!
//! | | file |
//! |---|---|
//! | the command: threads, signals, the order of its end | `command` |
//! | everything that listens | `sockets` |
//! | one thread that carries requests | `worker` |
//! | what becomes of a request | `handler` |
//! | whether the server is there, and who is told | `presence` |
//! | going to look | `checker` |
//! | the server's CPU | `cpu` |
//! | TLS on both sides | `tls` |
//! | for the admin server | `status` |

mod checker;
mod command;
mod cpu;
mod handler;
mod presence;
mod sockets;
mod status;
mod tls;
mod worker;

pub(crate) use command::{Args, run};
