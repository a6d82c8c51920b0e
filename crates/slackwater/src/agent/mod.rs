//! The sub-command `slackwater agent`: the sidecar of one replica whose server cannot be changed.
//!
//! It forwards requests to that server, counts them, and answers probes in its place. When it
//! cannot connect to the server, it withdraws. Otherwise a dead server behind a live agent would
//! look idle and attract all requests.
//!
//! | | file |
//! |---|---|
//! | the command: threads, signals, shutdown in order | `command` |
//! | all sockets | `sockets` |
//! | a thread that carries requests | `worker` |
//! | the handling of a request | `handler` |
//! | whether the server is there, and what the agent reports of it | `presence` |
//! | the check that the server is there | `checker` |
//! | the server's CPU | `cpu` |
//! | TLS on both sides | `tls` |
//! | the status for the admin server | `status` |

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
