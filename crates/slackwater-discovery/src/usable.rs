//! Sorts out the addresses of a source that cannot be replicas.

use core::net::SocketAddr;
use slackwater_config::{OwnAddresses, unreachable};

/// Keeps what has an address that may be a replica. Also returns a text about those that are left
/// out: an address that nothing can be sent to, and the proxy's own listeners.
pub(super) fn sift<T>(
    own: &OwnAddresses,
    found: Vec<T>,
    address: impl Fn(&T) -> SocketAddr,
) -> (Vec<T>, String) {
    let mut usable = Vec::with_capacity(found.len());
    let mut left_out = Vec::new();
    for item in found {
        let at = address(&item);
        let why = unreachable(at).map(str::to_owned);
        match why.or_else(|| own.why_not(at)) {
            Some(why) => left_out.push((at, why)),
            None => usable.push(item),
        }
    }
    let told = (left_out.first()).map(|(address, why)| match left_out.len() {
        1 => format!("{address} {why}"),
        many => format!("{address} {why}; and {} more like it", many - 1),
    });
    (usable, told.unwrap_or_default())
}
