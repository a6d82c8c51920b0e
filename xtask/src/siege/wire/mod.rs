//! Bytes on the wire, written and read by hand. Nothing here shares code with the proxy, so the
//! attacker cannot have the same bug as the proxy's codecs.

pub(super) mod frames;
pub(super) mod http1;
pub(super) mod http2;
