//! Free ports for processes.

use core::hash::BuildHasher;
use core::net::{Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::net::{TcpListener, UdpSocket};
use std::sync::LazyLock;

/// Where the search begins, if the system gives higher ports only.
const FIRST: u16 = 20_000;

/// Where the ports begin that systems give by default.
const GIVEN: u16 = 32_768;

/// Fewer ports than this are not enough for a chore.
const FEW: usize = 1_000;

/// The range in which the system chooses ports.
const SYSTEMS_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Ports of loopback that were free for TCP and for UDP, reserved until this is dropped.
///
/// The system does not give them to sockets and connections that ask for any port, and none is
/// taken twice here. So they stay free from the drop until a process binds them, and while a
/// process is restarted.
#[derive(Debug, Default)]
pub(crate) struct FreePorts(Vec<(TcpListener, UdpSocket)>);

impl FreePorts {
    /// Reserves one more.
    ///
    /// # Errors
    ///
    /// Fails if none is free.
    pub(crate) fn take(&mut self) -> Result<SocketAddr, String> {
        // Other chores that run at the same time begin elsewhere.
        static NEXT: LazyLock<AtomicU64> =
            LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(()) >> 1));
        let range = untouched();
        for _ in range.clone() {
            let place = NEXT.fetch_add(1, Ordering::Relaxed) % u64::from(range.end - range.start);
            let port = range.start + u16::try_from(place).unwrap_or_default();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let held = TcpListener::bind(address)
                .and_then(|listener| Ok((listener, UdpSocket::bind(address)?)));
            if let Ok(held) = held {
                self.0.push(held);
                return Ok(address);
            }
        }
        Err(format!("no free port on 127.0.0.1 of {range:?}"))
    }
}

/// The ports that the system does not choose.
fn untouched() -> Range<u16> {
    let given = std::fs::read_to_string(SYSTEMS_RANGE).unwrap_or_default();
    let ends = given.split_whitespace().map(|end| end.parse().ok());
    below_or_above(&ends.flatten().collect::<Vec<_>>())
}

/// The longer of the two ranges beside the ports that the system gives: from [`FIRST`] below them,
/// and above them. Where neither has [`FEW`], the ports that are not given by default.
fn below_or_above(given: &[u16]) -> Range<u16> {
    let (lowest, highest) = match *given {
        [lowest, highest] => (lowest, highest),
        _ => (GIVEN, u16::MAX),
    };
    let ranges = [FIRST..lowest, highest.saturating_add(1)..u16::MAX];
    let longest = ranges.into_iter().max_by_key(Range::len);
    longest.filter(|it| it.len() >= FEW).unwrap_or(FIRST..GIVEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_port_is_given_twice_here_or_by_the_system() {
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            // Each is free again when the next one is taken.
            let address = FreePorts::default().take().expect("a free port");
            assert!(seen.insert(address.port()), "{address} is given twice");
            assert!(untouched().contains(&address.port()), "{address}");
        }
    }

    #[test]
    fn ports_are_searched_where_the_system_gives_none() {
        for (given, expected) in [
            (&[32_768, 60_999][..], 20_000..32_768),
            (&[15_000, 50_000], 50_001..65_535),
            (&[1024, 65_535], 20_000..32_768),
            (&[], 20_000..32_768),
        ] {
            assert_eq!(below_or_above(given), expected, "{given:?}");
        }
    }

    #[test]
    fn a_port_is_held_until_the_drop() {
        let mut ports = FreePorts::default();
        let address = ports.take().expect("a free port");
        assert!(TcpListener::bind(address).is_err() && UdpSocket::bind(address).is_err());
        drop(ports);
        assert!(TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok());
    }
}
