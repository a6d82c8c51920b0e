//! Networks in CIDR form, and whether an address is in one of them.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// A network: an address and the number of its leading bits that count. An IPv4 network also
/// contains its addresses in IPv4-mapped form (`::ffff:10.0.0.1`), and may be written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    /// Description of a valid network.
    pub const EXPECTED: &str =
        "a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or an address";

    /// The network of all IPv4 or all IPv6 addresses.
    pub const fn all(unspecified: IpAddr) -> Self {
        Self {
            address: unspecified,
            prefix: 0,
        }
    }

    /// The IPv4 network that a network of IPv4-mapped addresses means.
    fn canonical(self) -> Self {
        match (self.address.to_canonical(), self.prefix.checked_sub(96)) {
            (address @ IpAddr::V4(_), Some(prefix)) if self.address.is_ipv6() => {
                Self { address, prefix }
            }
            _ => self,
        }
    }

    /// Returns whether the network contains an address.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                shifted(
                    u128::from(network.to_bits() ^ address.to_bits()),
                    32 - self.prefix,
                ) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                shifted(network.to_bits() ^ address.to_bits(), 128 - self.prefix) == 0
            }
            _ => false,
        }
    }
}

/// Shifts out the bits that do not count; that may be all of them.
fn shifted(difference: u128, bits: u32) -> u128 {
    difference.checked_shr(bits).unwrap_or(0)
}

impl FromStr for Network {
    /// Why the text is no network.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| "its address is none")?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            // `parse` would accept a plus, too.
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok().filter(|prefix| *prefix <= bits)
            }
            Some(_) => None,
            None => Some(bits),
        };
        let prefix = prefix.ok_or("its number of bits is none that it can have")?;
        // "10.0.0.1/8" may mean the single address or the whole network.
        let host_bits = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let kept = shifted(host_bits, bits - prefix).checked_shl(bits - prefix);
        if kept.unwrap_or(0) == host_bits {
            Ok(Self { address, prefix }.canonical())
        } else {
            Err("bits are set beyond its prefix")
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(network: &str, address: &str) -> bool {
        let network: Network = network.parse().expect("a network");
        network.contains(address.parse().expect("an address"))
    }

    #[test]
    fn network_matches_by_its_leading_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.0.0.0/9", "10.127.255.255", "10.128.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.6/31", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("::ffff:0.0.0.0/96", "10.0.0.1", "::1"),
        ] {
            assert!(is_in(network, inside), "{network} {inside}");
            assert!(!is_in(network, outside), "{network} {outside}");
        }
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "::/129",
            "10.0.0/8",
            "10.0.0.1/8",
            "::ffff:10.0.0.1/104",
            "::ffff:0.0.0.0/95",
            "2001:db8::1/32",
            "x/8",
            "10.0.0.0/8/8",
            "1.0.0.0/0",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn networks_round_trip() {
        for text in [
            "10.0.0.0/8",
            "::/0",
            "0.0.0.0/0",
            "2001:db8::/32",
            "::1/128",
        ] {
            let network: Network = text.parse().expect("a network");
            assert_eq!(network.to_string(), text);
        }
    }
}
