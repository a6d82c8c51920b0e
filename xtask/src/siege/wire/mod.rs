//! Bytes on the wire, written and read by hand: nothing here shares code with the proxy, so no bug
//! of its codecs hides behind the same bug in the attacker.

pub(super) mod frames;
pub(super) mod http1;
pub(super) mod http2;
