//! TLS on both sides: negotiation, verification of both peers, and the handling of mistakes.

mod clients;
mod hostile;
mod probes;
mod reload;
mod replicas;
pub(crate) mod rig;
