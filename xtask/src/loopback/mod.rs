//! What chores share that run real processes on loopback: processes that end with us, free ports,
//! replicas and agents in pairs, load, and the access log read back.

pub(crate) mod access_log;
pub(crate) mod behaviour;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod pair;
pub(crate) mod ports;
pub(crate) mod processes;
pub(crate) mod replica;
pub(crate) mod serve;
