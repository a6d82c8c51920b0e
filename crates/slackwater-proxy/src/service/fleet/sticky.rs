//! Sticky requests, and the replica that they go to.
//!
//! There are two ways. A cookie names the replica that answered first; its value is a hash, so that
//! clients learn no address, and other proxies, or the same one after a restart, can read it. Or a
//! value of the request is hashed together with each replica, and the highest hash wins (rendezvous
//! hashing: D. Thaler, C. Ravishankar, 1998); a larger weight increases it. When a replica leaves,
//! or its weight changes, only the keys that it loses or gains move. If the replica cannot be
//! picked, the policy picks as for any other request. The sessions of a replica that is down
//! therefore spread over the replicas with free capacity.

use super::StickyTarget;
use crate::service::keys::{cookie, present};
use core::cell::{Cell, RefCell};
use core::fmt::Write;
use core::net::IpAddr;
use http::header::{HeaderName, HeaderValue, SET_COOKIE};
use sha2::{Digest, Sha256};
use slackwater_config::{StickyBy, StickySettings};
use slackwater_core::ReplicaId;
use slackwater_http::{Fields, Request};

/// A worker's rule for which requests stick to which replica.
#[derive(Debug)]
pub(crate) struct Sticky {
    by: By,
    homes: RefCell<Vec<Known>>,
}

#[derive(Debug)]
enum By {
    Cookie { name: String, attributes: String },
    Header(HeaderName),
    Address,
}

/// A replica that requests may stick to, with its identifiers.
#[derive(Debug)]
struct Known {
    home: StickyTarget,
    /// Its value in a cookie: 32 hexadecimal digits.
    token: String,
    hash: u64,
    /// Index of the next part; the parts share the replica's requests in turn.
    turn: Cell<usize>,
}

impl Sticky {
    /// Makes the rule for these replicas; `None` if requests are not sticky.
    pub(crate) fn new(
        settings: &StickySettings,
        replicas: impl IntoIterator<Item = StickyTarget>,
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

    /// Replaces the replicas.
    pub(crate) fn set_homes(&self, replicas: impl IntoIterator<Item = StickyTarget>) {
        let homes = replicas.into_iter().map(Known::new);
        self.homes.replace(homes.collect());
    }

    /// Returns the replica that a request from `client` sticks to, if any.
    pub(crate) fn find<B>(
        &self,
        request: &Request<B>,
        client: impl FnOnce() -> IpAddr,
    ) -> Option<ReplicaId> {
        match &self.by {
            By::Cookie { name, .. } => {
                let token = cookie(request.headers(), name)?;
                let homes = self.homes.borrow();
                let mut homes = homes.iter();
                let home = homes.find(|home| home.token.as_bytes() == token)?;
                home.next_part()
            }
            By::Header(name) => self.highest(present(request, name)?),
            By::Address => match client() {
                IpAddr::V4(address) => self.highest(&address.octets()),
                IpAddr::V6(address) => self.highest(&address.octets()),
            },
        }
    }

    fn highest(&self, key: &[u8]) -> Option<ReplicaId> {
        let key = first_eight(&Sha256::digest(key));
        let homes = self.homes.borrow();
        // A replica of another tier could not be picked.
        let in_use = homes.iter().filter(|known| known.home.is_in_use);
        let highest = in_use.max_by(|a, b| f64::total_cmp(&a.score(key), &b.score(key)))?;
        highest.next_part()
    }

    /// Sets the cookie for `replica`, unless the request has it already.
    pub(crate) fn mark(&self, headers: &mut Fields, asked: Option<ReplicaId>, replica: ReplicaId) {
        let By::Cookie { name, attributes } = &self.by else {
            return;
        };
        let homes = self.homes.borrow();
        let home = homes.iter().find(|home| home.has(replica));
        if let Some(home) = home
            && !asked.is_some_and(|asked| home.has(asked))
            && let Ok(cookie) = HeaderValue::from_maybe_shared(bytes::Bytes::from(format!(
                "{name}={}{attributes}",
                home.token
            )))
        {
            headers.append(SET_COOKIE, cookie);
        }
    }
}

impl Known {
    fn new(home: StickyTarget) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"slackwater sticky 1 ");
        hash.update(home.address.to_string());
        let digest = hash.finalize();
        let token = digest
            .iter()
            .take(16)
            .fold(String::new(), |mut token, byte| {
                // Writing to a string cannot fail.
                let _ = write!(token, "{byte:02x}");
                token
            });
        Self {
            home,
            token,
            hash: first_eight(&digest),
            turn: Cell::default(),
        }
    }

    fn has(&self, replica: ReplicaId) -> bool {
        self.home.parts.contains(&replica)
    }

    fn next_part(&self) -> Option<ReplicaId> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let parts = &self.home.parts;
        parts.get(turn % parts.len().max(1)).copied()
    }

    /// Returns the score for a key; the highest score wins. Each replica wins a share of the keys
    /// in proportion to its weight. With equal weights, the highest hash wins.
    fn score(&self, key: u64) -> f64 {
        // 53 bits are the precision of a float; half a unit is added, so that the value is neither
        // 0 nor 1.
        let bits = mix(self.hash ^ key) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "it has 53 bits, and few parts")]
        let (drawn, parts) = (bits as f64, self.home.parts.len() as f64);
        let uniform = (drawn + 0.5) / 9_007_199_254_740_992.0;
        -parts / uniform.ln()
    }
}

fn first_eight(digest: &[u8]) -> u64 {
    let bytes = digest.first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(bytes)
}

/// The finalizer of `SplitMix64`: a change of one bit changes half of the bits of the result.
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
        // Writing to a string cannot fail.
        let _ = write!(attributes, "; Max-Age={}", age.as_secs());
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;
    use core::time::Duration;
    use slackwater_config::SameSite;
    use slackwater_core::ReplicaIds;

    /// Makes replicas with these weights.
    fn weighted(weights: &[usize]) -> Vec<StickyTarget> {
        let mut ids = ReplicaIds::new();
        let homes = weights.iter().zip(8000..);
        homes
            .map(|(&weight, port)| StickyTarget {
                address: SocketAddr::from(([10, 0, 0, 1], port)),
                parts: (0..weight).filter_map(|_| ids.allocate()).collect(),
                is_in_use: true,
            })
            .collect()
    }

    fn fleet(replicas: usize) -> Vec<StickyTarget> {
        weighted(&vec![1; replicas])
    }

    fn sticky(by: StickyBy, fleet: &[StickyTarget]) -> Sticky {
        let settings = StickySettings {
            by,
            header: Some(HeaderName::from_static("x-user")),
            ..StickySettings::default()
        };
        Sticky::new(&settings, fleet.iter().cloned()).expect("some rule")
    }

    fn request(name: &'static str, value: &str) -> Request<()> {
        let value = HeaderValue::try_from(value).expect("a value");
        let mut request = Request::new(());
        *request.headers_mut() = Fields::from_iter([(HeaderName::from_static(name), value)]);
        request
    }

    /// Finds the replica of a request whose client does not matter.
    fn find(sticky: &Sticky, request: &Request<()>) -> Option<ReplicaId> {
        sticky.find(request, || panic!("not by address"))
    }

    #[test]
    fn requests_are_not_sticky_by_default() {
        let settings = StickySettings::default();
        assert!(Sticky::new(&settings, fleet(2).into_iter()).is_none());
    }

    #[test]
    fn cookie_selects_its_replica_through_any_proxy() {
        let fleet = fleet(4);
        let [one, other] = [(); 2].map(|()| sticky(StickyBy::Cookie, &fleet));
        for home in &fleet {
            let (replica, address) = (home.parts[0], home.address);
            let mut told = Fields::new();
            one.mark(&mut told, None, replica);
            let cookie = told
                .get(SET_COOKIE)
                .expect("a cookie")
                .to_str()
                .expect("text");
            let (pair, attributes) = cookie.split_once(';').expect("attributes");
            assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Lax");
            let (_, token) = pair.split_once('=').expect("a pair");
            assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let IpAddr::V4(ip) = address.ip() else {
                panic!("{address}");
            };
            let shown = format!("{:08x}", u32::from(ip));
            assert!(!token.contains(&shown), "{token} shows {address}");
            let asks = request("cookie", &format!("a=b; {pair} ;c=d"));
            assert_eq!(find(&other, &asks), Some(replica));
            let mut again = Fields::new();
            other.mark(&mut again, Some(replica), replica);
            assert!(again.is_empty(), "it has that cookie");
            other.mark(&mut again, Some(fleet[0].parts[0]), replica);
            assert_eq!(again.is_empty(), replica == fleet[0].parts[0], "it moved");
        }
    }

    #[test]
    fn an_unknown_cookie_is_ignored() {
        let sticky = sticky(StickyBy::Cookie, &fleet(2));
        for cookie in [
            "slackwater=",
            "slackwater=x",
            "slackwaters=1",
            "slackwater",
            "",
        ] {
            assert_eq!(find(&sticky, &request("cookie", cookie)), None, "{cookie}");
        }
        assert_eq!(find(&sticky, &Request::new(())), None);
    }

    #[test]
    fn cookie_attributes_are_as_configured() {
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
    fn keys_are_spread_evenly_and_only_keys_of_a_leaving_replica_move() {
        let fleet = fleet(5);
        let all = sticky(StickyBy::Header, &fleet);
        let fewer = sticky(StickyBy::Header, &fleet[..4]);
        let mut counts = [0_i32; 5];
        for key in 0..10_000 {
            let asks = request("x-user", &key.to_string());
            let home = find(&all, &asks).expect("a key has a home");
            let index = place(&fleet, home);
            counts[index] += 1;
            if index < 4 {
                assert_eq!(find(&fewer, &asks), Some(home), "it need not move");
            }
        }
        // Binomial: mean 2,000, standard deviation 40; the bound is six of them.
        assert!(
            counts.iter().all(|count| (count - 2000).abs() < 240),
            "{counts:?}"
        );
        assert_eq!(find(&all, &Request::new(())), None, "without the field");
    }

    fn place(fleet: &[StickyTarget], part: ReplicaId) -> usize {
        let mut fleet = fleet.iter();
        fleet
            .position(|home| home.parts.contains(&part))
            .expect("known")
    }

    #[test]
    fn keys_are_shared_by_weight_and_only_affected_keys_move() {
        let (before, after) = (weighted(&[1, 3, 1]), weighted(&[1, 5, 1]));
        let [lighter, heavier] = [&before, &after].map(|fleet| sticky(StickyBy::Header, fleet));
        let mut counts = [0_i32; 3];
        let mut parts = std::collections::BTreeSet::new();
        for key in 0..10_000 {
            let asks = request("x-user", &key.to_string());
            let part = find(&lighter, &asks).expect("a home");
            let index = place(&before, part);
            counts[index] += 1;
            parts.insert(part);
            let then = place(&after, find(&heavier, &asks).expect("a home"));
            assert!(then == index || then == 1, "from {index} to {then}");
        }
        // Binomial: one fifth and three fifths of 10,000, with standard deviations 40 and 49; the
        // bound is six of them.
        assert!((counts[0] - 2000).abs() < 240, "{counts:?}");
        assert!((counts[1] - 6000).abs() < 294, "{counts:?}");
        assert_eq!(parts.len(), 5, "all parts have their turn");
    }

    #[test]
    fn keys_stick_to_the_tier_in_use_and_cookies_to_their_replica() {
        let mut fleet = fleet(3);
        fleet[1].is_in_use = false;
        let by_key = sticky(StickyBy::Header, &fleet);
        for key in 0..1000 {
            let found = find(&by_key, &request("x-user", &key.to_string()));
            assert_ne!(place(&fleet, found.expect("a home")), 1);
        }
        let by_cookie = sticky(StickyBy::Cookie, &fleet);
        let mut told = Fields::new();
        let standby = fleet[1].parts[0];
        by_cookie.mark(&mut told, None, standby);
        let cookie = told
            .get(SET_COOKIE)
            .expect("a cookie")
            .to_str()
            .expect("text");
        let (pair, _) = cookie.split_once(';').expect("attributes");
        assert_eq!(find(&by_cookie, &request("cookie", pair)), Some(standby));
    }

    #[test]
    fn client_addresses_are_sticky_keys() {
        let sticky = sticky(StickyBy::Address, &fleet(50));
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().expect("an address"));
        let find = |client: IpAddr| sticky.find(&Request::new(()), || client);
        assert_eq!(find(a), find(a));
        assert_ne!(find(a), find(b));
    }
}
