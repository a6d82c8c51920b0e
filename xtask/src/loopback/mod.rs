//! Helpers for chores that run real processes on loopback: processes that end with xtask, free
//! ports, pairs of replica and agent, load, and the access log.

pub(crate) mod access_log;
pub(crate) mod behaviour;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod pair;
pub(crate) mod ports;
pub(crate) mod processes;
pub(crate) mod replica;
pub(crate) mod serve;
