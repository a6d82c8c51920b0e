//! The probes that one socket has outstanding, by nonce.
//!
//! A nonce is 64 random bits whose lowest ones are replaced by the number of a slot. So finding a
//! reply's probe takes one step, while guessing a nonce means guessing all other bits. Slots are
//! used in turn. A slot becomes free when its probe is answered or its deadline passes, so the
//! table needs no timer. An answered slot keeps its nonce until it is used again; this
//! distinguishes a replayed reply from a foreign one.
//!
//! The table also counts the answers that may still come, so that the socket is not read without
//! need. Probes count in two generations. When a deadline has passed since the newer one started,
//! it becomes the older, and what is left of the former older one is lost. So nothing is searched,
//! and a lost probe counts for two deadlines at most.

use core::net::SocketAddr;
use core::time::Duration;
use slackwater_core::Instant;
use std::io;

use super::super::ProbeToken;

/// The number of nonces that one call to the operating system yields.
const DRAWN_AT_ONCE: usize = 64;
/// How far to look for a free slot when the next one is taken.
const SEARCH_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Slot {
    nonce: u64,
    addr: SocketAddr,
    token: ProbeToken,
    sent_at: Instant,
    deadline: Instant,
    answered: bool,
    generation: u32,
}

/// Counts of probes without an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    generation: u32,
    /// Probes of this generation, and of the one before.
    newer: usize,
    older: usize,
    /// When the next generation starts: the deadline of the first probe of this one.
    until: Instant,
    /// The deadline that a probe gets; the last one's is used for all.
    span: Duration,
}

impl Awaited {
    fn turn(&mut self, now: Instant) {
        // Twice: after two spans nothing is left.
        for _ in 0..2 {
            if self.until <= now {
                self.older = core::mem::take(&mut self.newer);
                self.generation = self.generation.wrapping_add(1);
                self.until += self.span;
            }
        }
        if self.until <= now {
            self.until = now + self.span;
        }
    }

    fn add(&mut self, now: Instant, deadline: Instant) -> u32 {
        self.span = deadline.saturating_since(now);
        self.turn(now);
        self.newer += 1;
        self.generation
    }

    fn take(&mut self, generation: u32) {
        let count = if generation == self.generation {
            &mut self.newer
        } else if generation.wrapping_add(1) == self.generation {
            &mut self.older
        } else {
            return;
        };
        *count = count.saturating_sub(1);
    }
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The answer to this probe, with the time at which it was sent.
    Answer(ProbeToken, Instant),
    /// Another answer to a probe that had one.
    Replayed,
    /// A reply to no known probe, or from an address that was not probed.
    Foreign,
}

/// The table.
#[derive(Debug)]
pub(super) struct Nonces {
    /// The length is a power of two.
    slots: Vec<Option<Slot>>,
    next: usize,
    drawn: Vec<u64>,
    awaited: Awaited,
}

impl Nonces {
    pub(super) const CAPACITY_MAX: u32 = 1 << 16;

    pub(super) fn new(capacity: u32) -> io::Result<Self> {
        let capacity = capacity.clamp(1, Self::CAPACITY_MAX).next_power_of_two();
        let mut nonces = Self {
            slots: vec![None; capacity as usize],
            next: 0,
            drawn: Vec::with_capacity(DRAWN_AT_ONCE),
            awaited: Awaited::default(),
        };
        nonces.draw()?;
        Ok(nonces)
    }

    /// The number of slots.
    pub(super) const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The number of answers that may still come. It includes probes that were lost a short while
    /// ago.
    pub(super) fn awaited(&mut self, now: Instant) -> usize {
        self.awaited.turn(now);
        self.awaited.newer + self.awaited.older
    }

    /// Whether the probe with this nonce may still be answered.
    pub(super) fn is_awaited(&mut self, now: Instant, nonce: u64) -> bool {
        self.slot_mut(nonce)
            .is_some_and(|slot| !slot.answered && slot.deadline > now)
    }

    /// Reserves a slot for a probe, and returns its nonce. Returns `None` if all slots that were
    /// looked at are taken.
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
            // The next search starts after these: a run of taken slots must not hide the free ones
            // after it.
            self.next = (self.next + searched) & mask;
            return None;
        };
        let nonce = (self.drawn.pop()? & !(mask as u64)) | index as u64;
        self.slots[index] = Some(Slot {
            nonce,
            addr,
            token,
            sent_at: now,
            deadline,
            answered: false,
            generation: self.awaited.add(now, deadline),
        });
        self.next = (index + 1) & mask;
        Some(nonce)
    }

    /// Classifies a reply with this nonce from `from`; only the first is an answer.
    pub(super) fn claim(&mut self, nonce: u64, from: SocketAddr) -> Claim {
        match self.slot_mut(nonce) {
            Some(slot) if same_place(slot.addr, from) => {
                if slot.answered {
                    return Claim::Replayed;
                }
                slot.answered = true;
                let (token, sent_at, generation) = (slot.token, slot.sent_at, slot.generation);
                self.awaited.take(generation);
                Claim::Answer(token, sent_at)
            }
            _ => Claim::Foreign,
        }
    }

    /// Frees the slot of a probe that was never sent.
    pub(super) fn release(&mut self, nonce: u64) -> Option<ProbeToken> {
        let slot = self.slot_mut(nonce).filter(|slot| !slot.answered)?;
        slot.answered = true;
        let (token, generation) = (slot.token, slot.generation);
        self.awaited.take(generation);
        Some(token)
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

/// Flow label and scope of an IPv6 address belong to the network, and may differ on the way back.
fn same_place(asked: SocketAddr, from: SocketAddr) -> bool {
    asked.ip() == from.ip() && asked.port() == from.port()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use core::time::Duration;
    use slackwater_core::policy::{Event, Policy, Prequal, PrequalConfig};
    use slackwater_core::{NoDraw, ReplicaIds, SplitMix64};

    const ADDR: SocketAddr =
        SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 9);

    pub(in super::super) fn token() -> ProbeToken {
        let mut draw = SplitMix64::new(1);
        let mut policy = Prequal::new(PrequalConfig::default());
        let replica = ReplicaIds::new().allocate().expect("room");
        policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        policy.handle(Instant::EPOCH, Event::Timeout, &mut draw);
        let probe = policy.poll_probe(Instant::EPOCH, &mut draw);
        ProbeToken::pooled(probe.expect("an idle probe is due").id, replica)
    }

    #[test]
    fn nonce_is_accepted_once_and_only_from_the_probed_address() {
        let mut nonces = Nonces::new(4).expect("randomness");
        let deadline = Instant::EPOCH + Duration::from_millis(3);
        let nonce = nonces
            .reserve(Instant::EPOCH, token(), ADDR, deadline)
            .expect("room");
        let elsewhere = SocketAddr::new(ADDR.ip(), 10);
        assert_eq!(nonces.claim(nonce, elsewhere), Claim::Foreign);
        assert_eq!(nonces.claim(nonce ^ (1 << 63), ADDR), Claim::Foreign);
        assert_eq!(nonces.claim(nonce ^ 1, ADDR), Claim::Foreign);
        assert_eq!(
            nonces.claim(nonce, ADDR),
            Claim::Answer(token(), Instant::EPOCH)
        );
        assert_eq!(nonces.claim(nonce, ADDR), Claim::Replayed);
    }

    #[test]
    fn full_table_rejects_until_an_answer_or_a_deadline() {
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
    fn slots_behind_a_run_of_unanswered_probes_are_found() {
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
    fn answers_are_awaited_until_received_or_past_the_deadline() {
        let mut nonces = Nonces::new(1024).expect("randomness");
        let at = |ms| Instant::EPOCH + Duration::from_millis(ms);
        let reserve = |nonces: &mut Nonces, ms| {
            let deadline = at(ms) + Duration::from_millis(50);
            nonces
                .reserve(at(ms), token(), ADDR, deadline)
                .expect("room")
        };
        assert_eq!(nonces.awaited(at(1_000)), 0);
        let first = reserve(&mut nonces, 1_000);
        let second = reserve(&mut nonces, 1_040);
        assert_eq!(nonces.awaited(at(1_049)), 2);
        nonces.claim(first, ADDR);
        nonces.claim(first, ADDR);
        assert_eq!(nonces.awaited(at(1_049)), 1, "a replay takes nothing");
        let third = reserve(&mut nonces, 1_051);
        assert_eq!(nonces.awaited(at(1_089)), 2, "the second may still come");
        nonces.release(second);
        assert_eq!(nonces.awaited(at(1_089)), 1);
        // With a stream of answered probes, a lost one does not count forever.
        for ms in 1_090..1_200 {
            let nonce = reserve(&mut nonces, ms);
            nonces.claim(nonce, ADDR);
        }
        assert_eq!(nonces.awaited(at(1_200)), 0, "the third is lost");
        nonces.claim(third, ADDR);
        assert_eq!(
            nonces.awaited(at(1_200)),
            0,
            "its late answer takes nothing"
        );
        // Without such a stream, lost probes do not count forever either.
        reserve(&mut nonces, 2_000);
        assert_eq!(nonces.awaited(at(2_049)), 1);
        assert_eq!(nonces.awaited(at(2_101)), 0);
        reserve(&mut nonces, 9_000);
        assert_eq!(nonces.awaited(at(9_049)), 1);
    }

    #[test]
    fn nonces_in_the_same_slot_differ() {
        let mut nonces = Nonces::new(1).expect("randomness");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..DRAWN_AT_ONCE * 3 {
            let nonce = nonces.reserve(Instant::EPOCH, token(), ADDR, Instant::EPOCH);
            assert!(seen.insert(nonce.expect("the last one is due at once")));
        }
    }
}
