//! The probes that one socket has outstanding, by nonce.
//!
//! A nonce is 64 random bits whose lowest ones are replaced by the number of a slot: looking a reply up takes one step,
//! while guessing it takes all the other bits. Slots are used in turn, and a slot becomes free when its probe is answered
//! or its deadline passes, so the table needs no timer of its own. An answered slot keeps its nonce until it is used
//! again; that is how a replayed reply is told from a foreign one.

use core::net::SocketAddr;
use slackwater_core::Instant;
use std::io;

use super::super::ProbeToken;

/// So many nonces are drawn from the operating system at once.
const DRAWN_AT_ONCE: usize = 64;
/// How far to look for a free slot when the next one is taken.
const SEARCH_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Slot {
    nonce: u64,
    addr: SocketAddr,
    token: ProbeToken,
    deadline: Instant,
    answered: bool,
}

/// What a reply turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The answer to this probe.
    Answer(ProbeToken),
    /// Another answer to a probe that had one.
    Replayed,
    /// Nothing that was asked, or not by whom it was asked.
    Foreign,
}

/// The table.
#[derive(Debug)]
pub(super) struct Nonces {
    /// A power of two of them.
    slots: Vec<Option<Slot>>,
    next: usize,
    drawn: Vec<u64>,
}

impl Nonces {
    pub(super) const CAPACITY_MAX: u32 = 1 << 16;

    pub(super) fn new(capacity: u32) -> io::Result<Self> {
        let capacity = capacity.clamp(1, Self::CAPACITY_MAX).next_power_of_two();
        let mut nonces = Self {
            slots: vec![None; capacity as usize],
            next: 0,
            drawn: Vec::with_capacity(DRAWN_AT_ONCE),
        };
        nonces.draw()?;
        Ok(nonces)
    }

    /// Places there are.
    pub(super) const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Whether the probe with this nonce may still be answered.
    pub(super) fn is_awaited(&mut self, now: Instant, nonce: u64) -> bool {
        self.slot_mut(nonce)
            .is_some_and(|slot| !slot.answered && slot.deadline > now)
    }

    /// Keeps a place for a probe; its nonce, or `None` when the places that were looked at are all taken.
    pub(super) fn reserve(
        &mut self,
        now: Instant,
        token: ProbeToken,
        addr: SocketAddr,
        deadline: Instant,
    ) -> Option<u64> {
        if self.drawn.is_empty() {
            self.draw().ok()?;
        }
        let mask = self.slots.len() - 1;
        let free = |index: &usize| {
            self.slots[*index].is_none_or(|slot| slot.answered || slot.deadline <= now)
        };
        let searched = SEARCH_MAX.min(self.slots.len());
        let found = (self.next..self.next + searched)
            .map(|index| index & mask)
            .find(free);
        let Some(index) = found else {
            // The next search begins behind these: a run of taken slots must not hide the free ones that follow it.
            self.next = (self.next + searched) & mask;
            return None;
        };
        let nonce = (self.drawn.pop()? & !(mask as u64)) | index as u64;
        self.slots[index] = Some(Slot {
            nonce,
            addr,
            token,
            deadline,
            answered: false,
        });
        self.next = (index + 1) & mask;
        Some(nonce)
    }

    /// What a reply with this nonce from there is; an answer is one only once.
    pub(super) fn claim(&mut self, nonce: u64, from: SocketAddr) -> Claim {
        match self.slot_mut(nonce) {
            Some(slot) if same_place(slot.addr, from) => {
                if slot.answered {
                    return Claim::Replayed;
                }
                slot.answered = true;
                Claim::Answer(slot.token)
            }
            _ => Claim::Foreign,
        }
    }

    /// Gives a place back whose probe never went out.
    pub(super) fn release(&mut self, nonce: u64) -> Option<ProbeToken> {
        let slot = self.slot_mut(nonce).filter(|slot| !slot.answered)?;
        slot.answered = true;
        Some(slot.token)
    }

    fn slot_mut(&mut self, nonce: u64) -> Option<&mut Slot> {
        let mask = self.slots.len() as u64 - 1;
        let index = usize::try_from(nonce & mask).ok()?;
        self.slots
            .get_mut(index)?
            .as_mut()
            .filter(|slot| slot.nonce == nonce)
    }

    fn draw(&mut self) -> io::Result<()> {
        let mut bytes = [0; DRAWN_AT_ONCE * size_of::<u64>()];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let (words, _) = bytes.as_chunks::<{ size_of::<u64>() }>();
        self.drawn
            .extend(words.iter().map(|&word| u64::from_ne_bytes(word)));
        Ok(())
    }
}

/// Flow label and scope of an IPv6 address are the network's business, and may differ on the way back.
fn same_place(asked: SocketAddr, from: SocketAddr) -> bool {
    asked.ip() == from.ip() && asked.port() == from.port()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use core::time::Duration;
    use slackwater_core::policy::{Policy, Prequal, PrequalConfig};
    use slackwater_core::{ReplicaIds, SplitMix64};

    const ADDR: SocketAddr =
        SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 9);

    pub(in super::super) fn token() -> ProbeToken {
        let mut draw = SplitMix64::new(1);
        let mut policy = Prequal::new(PrequalConfig::default());
        let replica = ReplicaIds::new().allocate().expect("room");
        policy.add_replica(Instant::EPOCH, replica);
        policy.handle_timeout(Instant::EPOCH, &mut draw);
        let probe = policy.poll_probe(Instant::EPOCH, &mut draw);
        ProbeToken::pooled(
            probe.expect("an idle probe is due").id,
            core::num::NonZeroU32::MIN,
        )
    }

    #[test]
    fn a_nonce_is_answered_once_and_by_whom_it_was_asked() {
        let mut nonces = Nonces::new(4).expect("randomness");
        let deadline = Instant::EPOCH + Duration::from_millis(3);
        let nonce = nonces
            .reserve(Instant::EPOCH, token(), ADDR, deadline)
            .expect("room");
        let elsewhere = SocketAddr::new(ADDR.ip(), 10);
        assert_eq!(nonces.claim(nonce, elsewhere), Claim::Foreign);
        assert_eq!(nonces.claim(nonce ^ (1 << 63), ADDR), Claim::Foreign);
        assert_eq!(nonces.claim(nonce ^ 1, ADDR), Claim::Foreign);
        assert_eq!(nonces.claim(nonce, ADDR), Claim::Answer(token()));
        assert_eq!(nonces.claim(nonce, ADDR), Claim::Replayed);
    }

    #[test]
    fn a_full_table_refuses_until_an_answer_or_a_deadline() {
        let mut nonces = Nonces::new(3).expect("randomness");
        let deadline = Instant::EPOCH + Duration::from_millis(3);
        let reserve = |nonces: &mut Nonces, now| nonces.reserve(now, token(), ADDR, deadline);
        let taken: Vec<_> = (0..4)
            .filter_map(|_| reserve(&mut nonces, Instant::EPOCH))
            .collect();
        assert_eq!(taken.len(), 4, "three are rounded up to four");
        assert_eq!(reserve(&mut nonces, Instant::EPOCH), None);
        nonces.claim(taken[2], ADDR);
        assert!(reserve(&mut nonces, Instant::EPOCH).is_some());
        assert_eq!(reserve(&mut nonces, Instant::EPOCH), None);
        assert!(reserve(&mut nonces, deadline).is_some());
    }

    #[test]
    fn a_run_of_unanswered_probes_does_not_block_the_free_places_behind_it() {
        let mut nonces = Nonces::new(1024).expect("randomness");
        let deadline = Instant::EPOCH + Duration::from_millis(50);
        let reserve = |nonces: &mut Nonces| nonces.reserve(Instant::EPOCH, token(), ADDR, deadline);
        for _ in 0..3 * SEARCH_MAX {
            reserve(&mut nonces).expect("room");
        }
        for _ in 3 * SEARCH_MAX..1024 {
            let nonce = reserve(&mut nonces).expect("room");
            nonces.claim(nonce, ADDR);
        }
        let reserved = (0..100).filter(|_| reserve(&mut nonces).is_some());
        assert_eq!(reserved.count(), 97, "each search gets further");
    }

    #[test]
    fn nonces_differ_beyond_their_slots() {
        let mut nonces = Nonces::new(1).expect("randomness");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..DRAWN_AT_ONCE * 3 {
            let nonce = nonces.reserve(Instant::EPOCH, token(), ADDR, Instant::EPOCH);
            assert!(seen.insert(nonce.expect("the last one is due at once")));
        }
    }
}
