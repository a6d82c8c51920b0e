//! Requests that belong together, and the replica that they go to.
//!
//! Two ways. A cookie of ours names the replica that answered first; its value is a hash, so that clients learn no
//! address, and two proxies, or one after a restart, read each other's. Or a value of the request is hashed together with
//! each replica, and the highest hash wins (rendezvous hashing: D. Thaler, C. Ravishankar, 1998): when a replica leaves,
//! only what was its own moves. Where the replica cannot be chosen the policy chooses, as it does for everybody else; so a
//! replica that is down loses its sessions to whoever has room, and not all to the same one.

use crate::config::{StickyBy, StickySettings};
use core::cell::RefCell;
use core::fmt::Write;
use core::net::IpAddr;
use core::net::SocketAddr;
use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use sha2::{Digest, Sha256};
use slackwater_core::ReplicaId;

/// A worker's rule of which requests belong to which replica.
#[derive(Debug)]
pub(super) struct Sticky {
    by: By,
    homes: RefCell<Vec<Home>>,
}

#[derive(Debug)]
enum By {
    Cookie { name: String, attributes: String },
    Header(HeaderName),
    Address,
}

/// A replica that requests may belong to.
#[derive(Debug)]
struct Home {
    replica: ReplicaId,
    /// What stands for it in a cookie: 32 hexadecimal digits.
    token: String,
    hash: u64,
}

impl Sticky {
    /// The rule for these replicas; `None` if each request stands for itself.
    pub(super) fn new(
        settings: &StickySettings,
        replicas: impl IntoIterator<Item = (ReplicaId, SocketAddr)>,
    ) -> Option<Self> {
        let by = match (settings.by, &settings.header) {
            (StickyBy::Cookie, _) => By::Cookie {
                name: settings.cookie.clone(),
                attributes: attributes(settings),
            },
            (StickyBy::Header, Some(header)) => By::Header(header.clone()),
            (StickyBy::Address, _) => By::Address,
            (StickyBy::None, _) | (StickyBy::Header, None) => return None,
        };
        let sticky = Self {
            by,
            homes: RefCell::default(),
        };
        sticky.set_homes(replicas);
        Some(sticky)
    }

    /// These are the replicas from now on.
    pub(super) fn set_homes(&self, replicas: impl IntoIterator<Item = (ReplicaId, SocketAddr)>) {
        let replicas = replicas.into_iter();
        let homes = replicas.map(|(replica, address)| Home::new(replica, address));
        self.homes.replace(homes.collect());
    }

    /// Whether it asks for the client's address.
    pub(super) const fn is_by_address(&self) -> bool {
        matches!(self.by, By::Address)
    }

    /// The replica that a request belongs to, if it belongs to any.
    pub(super) fn find(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Option<ReplicaId> {
        match &self.by {
            By::Cookie { name, .. } => {
                let token = cookie(headers, name)?;
                let homes = self.homes.borrow();
                let home = homes.iter().find(|home| home.token == token)?;
                Some(home.replica)
            }
            By::Header(name) => self.highest(headers.get(name)?.as_bytes()),
            By::Address => match client? {
                IpAddr::V4(address) => self.highest(&address.octets()),
                IpAddr::V6(address) => self.highest(&address.octets()),
            },
        }
    }

    fn highest(&self, key: &[u8]) -> Option<ReplicaId> {
        let key = first_eight(&Sha256::digest(key));
        let homes = self.homes.borrow();
        let highest = homes.iter().max_by_key(|home| mix(home.hash ^ key))?;
        Some(highest.replica)
    }

    /// Tells the client to come back to `replica`, unless its request said that already.
    pub(super) fn mark(
        &self,
        headers: &mut HeaderMap,
        asked: Option<ReplicaId>,
        replica: ReplicaId,
    ) {
        let By::Cookie { name, attributes } = &self.by else {
            return;
        };
        if asked == Some(replica) {
            return;
        }
        let homes = self.homes.borrow();
        if let Some(home) = homes.iter().find(|home| home.replica == replica)
            && let Ok(cookie) = HeaderValue::from_maybe_shared(bytes::Bytes::from(format!(
                "{name}={}{attributes}",
                home.token
            )))
        {
            headers.append(SET_COOKIE, cookie);
        }
    }
}

impl Home {
    fn new(replica: ReplicaId, address: SocketAddr) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"slackwater sticky 1 ");
        hash.update(address.to_string());
        let digest = hash.finalize();
        let token = digest
            .iter()
            .take(16)
            .fold(String::new(), |mut token, byte| {
                // Writing to a string does not fail.
                let _ = write!(token, "{byte:02x}");
                token
            });
        Self {
            replica,
            token,
            hash: first_eight(&digest),
        }
    }
}

fn first_eight(digest: &[u8]) -> u64 {
    let bytes = digest.first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(bytes)
}

/// The finalizer of `SplitMix64`: one bit that differs changes half of the result's.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn attributes(settings: &StickySettings) -> String {
    let same_site = settings.cookie_same_site.as_str();
    let mut attributes = format!("; Path=/; HttpOnly; SameSite={same_site}");
    if settings.cookie_secure {
        attributes += "; Secure";
    }
    if let Some(age) = settings.cookie_age {
        // Writing to a string does not fail.
        let _ = write!(attributes, "; Max-Age={}", age.as_secs());
    }
    attributes
}

/// The value of a cookie, the first of that name.
fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let fields = headers.get_all(COOKIE).iter();
    let mut pairs = fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'));
    pairs.find_map(|pair| {
        let (own, value) = pair.trim_matches(' ').split_once('=')?;
        (own == name).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SameSite;
    use core::time::Duration;
    use slackwater_core::ReplicaIds;

    fn fleet(replicas: u16) -> Vec<(ReplicaId, SocketAddr)> {
        let mut ids = ReplicaIds::new();
        (0..replicas)
            .map(|index| {
                let address = SocketAddr::from(([10, 0, 0, 1], 8000 + index));
                (ids.allocate().expect("room"), address)
            })
            .collect()
    }

    fn sticky(by: StickyBy, fleet: &[(ReplicaId, SocketAddr)]) -> Sticky {
        let settings = StickySettings {
            by,
            header: Some(HeaderName::from_static("x-user")),
            ..StickySettings::default()
        };
        Sticky::new(&settings, fleet.iter().copied()).expect("some rule")
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let value = HeaderValue::try_from(value).expect("a value");
        HeaderMap::from_iter([(HeaderName::from_static(name), value)])
    }

    #[test]
    fn by_default_each_request_stands_for_itself() {
        let settings = StickySettings::default();
        assert!(Sticky::new(&settings, fleet(2).into_iter()).is_none());
    }

    #[test]
    fn the_cookie_leads_back_to_who_set_it_also_through_another_proxy() {
        let fleet = fleet(4);
        let [one, other] = [(); 2].map(|()| sticky(StickyBy::Cookie, &fleet));
        for &(replica, address) in &fleet {
            let mut told = HeaderMap::new();
            one.mark(&mut told, None, replica);
            let cookie = told[SET_COOKIE].to_str().expect("text");
            let (pair, attributes) = cookie.split_once(';').expect("attributes");
            assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Lax");
            let (_, token) = pair.split_once('=').expect("a pair");
            assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let IpAddr::V4(ip) = address.ip() else {
                panic!("{address}");
            };
            let shown = format!("{:08x}", u32::from(ip));
            assert!(!token.contains(&shown), "{token} shows {address}");
            let asks = headers("cookie", &format!("a=b; {pair} ;c=d"));
            assert_eq!(other.find(&asks, None), Some(replica));
            let mut again = HeaderMap::new();
            other.mark(&mut again, Some(replica), replica);
            assert!(again.is_empty(), "it has that cookie");
            other.mark(&mut again, Some(fleet[0].0), replica);
            assert_eq!(again.is_empty(), replica == fleet[0].0, "it moved");
        }
    }

    #[test]
    fn a_cookie_of_nobody_is_none() {
        let sticky = sticky(StickyBy::Cookie, &fleet(2));
        for cookie in [
            "slackwater=",
            "slackwater=x",
            "slackwaters=1",
            "slackwater",
            "",
        ] {
            assert_eq!(
                sticky.find(&headers("cookie", cookie), None),
                None,
                "{cookie}"
            );
        }
        assert_eq!(sticky.find(&HeaderMap::new(), None), None);
    }

    #[test]
    fn attributes_are_as_configured() {
        let settings = StickySettings {
            by: StickyBy::Cookie,
            cookie_age: Some(Duration::from_mins(10)),
            cookie_secure: true,
            cookie_same_site: SameSite::None,
            ..StickySettings::default()
        };
        let told = attributes(&settings);
        assert_eq!(
            told,
            "; Path=/; HttpOnly; SameSite=None; Secure; Max-Age=600"
        );
    }

    #[test]
    fn keys_are_spread_evenly_and_only_those_of_who_leaves_move() {
        let fleet = fleet(5);
        let all = sticky(StickyBy::Header, &fleet);
        let fewer = sticky(StickyBy::Header, &fleet[..4]);
        let mut counts = [0_i32; 5];
        for key in 0..10_000 {
            let asks = headers("x-user", &key.to_string());
            let home = all.find(&asks, None).expect("a key has a home");
            let index = fleet.iter().position(|&(id, _)| id == home).expect("known");
            counts[index] += 1;
            if index < 4 {
                assert_eq!(fewer.find(&asks, None), Some(home), "it need not move");
            }
        }
        // Binomial: mean 2,000, standard deviation 40; six of them.
        assert!(
            counts.iter().all(|count| (count - 2000).abs() < 240),
            "{counts:?}"
        );
        assert_eq!(all.find(&HeaderMap::new(), None), None, "without the field");
    }

    #[test]
    fn addresses_are_keys_too() {
        let sticky = sticky(StickyBy::Address, &fleet(50));
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().ok());
        let none = HeaderMap::new();
        assert_eq!(sticky.find(&none, a), sticky.find(&none, a));
        assert_ne!(sticky.find(&none, a), sticky.find(&none, b));
        assert_eq!(sticky.find(&none, None), None);
        assert!(sticky.is_by_address());
    }
}
