//! Keys: what a query is about, as a number, and the stable name of a replica.
//!
//! Queries with the same key go to the same replica while it is not busy: see [`keys`]. A key is
//! hashed once, where the query comes in, so that the core never sees the key itself.
//!
//! [`keys`]: crate::keys

use core::fmt;

/// The hash of a key: a user, a session, a path, a prompt. Any value, uniform over all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// The hash that was stored as this number. It must be uniform over all values: hash whatever
    /// is not with [`KeyHasher`].
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The hash as a number, for storage and for the wire.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({self})")
    }
}

/// Hashes keys: SipHash-1-3 with a seed of 128 bits.
///
/// The default seed is fixed and public, so that all clients agree without any configuration. A
/// client that sends keys of its own making can then construct keys that all belong to one replica.
/// Where that matters, give all balancers the same [secret](Self::with_secret).
///
/// ```
/// use slackwater_core::keys::KeyHasher;
///
/// let open = KeyHasher::default();
/// assert_eq!(open.hash(b"user 1"), open.hash(b"user 1"));
/// assert_ne!(open.hash(b"user 1"), open.hash(b"user 2"));
/// let secret = KeyHasher::with_secret(b"not in the repository");
/// assert_ne!(open.hash(b"user 1"), secret.hash(b"user 1"));
/// ```
#[derive(Clone, Copy)]
pub struct KeyHasher {
    first: u64,
    second: u64,
}

impl Default for KeyHasher {
    /// The hasher with the public seed: the ASCII codes of `slackwater keys1`, each half in
    /// little-endian order.
    fn default() -> Self {
        Self::with_seed(
            u64::from_le_bytes(*b"slackwat"),
            u64::from_le_bytes(*b"er keys1"),
        )
    }
}

impl KeyHasher {
    /// A hasher with this seed.
    pub const fn with_seed(first: u64, second: u64) -> Self {
        Self { first, second }
    }

    /// A hasher whose seed derives from a secret of any length. It is as hard to guess as the
    /// secret: use 16 random bytes or more.
    pub fn with_secret(secret: &[u8]) -> Self {
        let public = Self::default();
        let half = |part: u64| {
            let hasher = Self::with_seed(public.first ^ part, public.second);
            hasher.hash(secret).to_bits()
        };
        Self::with_seed(half(1), half(2))
    }

    /// The hash of a key. It takes time in proportion to the length.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let mut state = State::new(self.first, self.second);
        let (words, rest) = key.as_chunks::<8>();
        for word in words {
            state.take(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        // The last byte is the length, modulo 256.
        last[7] = key.len().to_le_bytes()[0];
        state.take(u64::from_le_bytes(last));
        KeyHash(state.finish())
    }
}

/// It does not show the seed.
impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

/// The state of `SipHash`.
struct State([u64; 4]);

impl State {
    const fn new(first: u64, second: u64) -> Self {
        Self([
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ])
    }

    const fn round(&mut self) {
        let [a, b, c, d] = self.0;
        let (a, c) = (a.wrapping_add(b), c.wrapping_add(d));
        let (b, d) = (b.rotate_left(13) ^ a, d.rotate_left(16) ^ c);
        let a = a.rotate_left(32);
        let (c, a) = (c.wrapping_add(b), a.wrapping_add(d));
        let (b, d) = (b.rotate_left(17) ^ c, d.rotate_left(21) ^ a);
        self.0 = [a, b, c.rotate_left(32), d];
    }

    const fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    const fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        let [a, b, c, d] = self.0;
        a ^ b ^ c ^ d
    }
}

/// The stable name of a replica: the same for all clients, whatever order replicas join in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The name of the server, as a number: a hash of its address, or of a configured name. Any
    /// value.
    pub name: u64,
    /// The number of the part of the server, from 0: a server of weight w is w replicas with the
    /// same name. A part that is known already is harmless: the two share one place.
    pub part: u32,
}

impl Identity {
    /// The identity of part `part` of the server with this name. The name is hashed with the public
    /// seed.
    pub fn new(name: &[u8], part: u32) -> Self {
        Self {
            name: KeyHasher::default().hash(name).to_bits(),
            part,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    /// The seed of the reference implementation's vectors: the bytes 0 to 15. Keys are 0, 1, 2, …
    #[test]
    fn hashes_equal_the_reference_vectors() {
        let hasher = KeyHasher::with_seed(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        for (len, expected) in [
            (0, 0xabac_0158_050f_c4dc),
            (1, 0xc9f4_9bf3_7d57_ca93),
            (7, 0xd392_7d98_9bb1_1140),
            (8, 0x3690_9511_8d29_9a8e),
            (63, 0x9d19_9062_b7bb_b3a8),
        ] {
            let key: Vec<u8> = (0..len).collect();
            assert_eq!(hasher.hash(&key), KeyHash(expected), "{len}");
        }
    }

    #[test]
    fn public_and_secret_seeds_are_fixed() {
        assert_eq!(
            KeyHasher::default().hash(b"user 1").to_string(),
            "ef4c311e8dc971e7"
        );
        let secret = KeyHasher::with_secret(b"secret");
        assert_eq!(secret.hash(b"user 1").to_string(), "868eae8d69252c46");
        let identity = Identity::new(b"10.0.0.1:80", 3);
        assert_eq!((identity.name, identity.part), (0x3941_1e70_86b1_47cd, 3));
    }
}
