//! The server side over real sockets on loopback, and its latencies under paused time.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod http;
#[cfg(test)]
mod latency;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod ties;
#[cfg(test)]
mod udp;

use core::time::Duration;

/// Waits until `condition` holds. Fails the test with `what` after a limit that no working machine
/// needs.
async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}
