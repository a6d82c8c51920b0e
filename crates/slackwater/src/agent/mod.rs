//! The sub-command `slackwater agent`: the sidecar of one replica whose server cannot be changed.
//!
//! It forwards requests to that server, counts them, and answers probes in its place. When it
//! cannot connect to the server, it withdraws. Otherwise a dead server behind a live agent would
//! look idle and attract all requests.
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
