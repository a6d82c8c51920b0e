//! Values for tests.

use crate::{ReplicaConfig, Zone};

/// The replica at 10.0.0.`n`:80.
pub fn replica(n: u8) -> ReplicaConfig {
    let address = ([10, 0, 0, n], 80).into();
    ReplicaConfig {
        name: format!("{address}"),
        address,
        probe_address: address,
        server_name: address.ip().into(),
        weight: 1,
        tier: 0,
        zone: Zone::default(),
    }
}
