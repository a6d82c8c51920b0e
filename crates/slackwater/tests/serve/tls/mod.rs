//! TLS on both sides: what is agreed on, who is let in, who is believed, and what becomes of those
//! who do it wrong.

mod clients;
mod hostile;
mod probes;
mod reload;
mod replicas;
pub(crate) mod rig;
